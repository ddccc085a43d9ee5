"""The frame of every page, and what all pages share."""
