"""The inbox: everything that waits for a person, of whatever kind, in one list with the same keys."""
