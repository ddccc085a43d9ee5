"""The pages that belong to no table."""
