"""Counts in sentences."""


def say_count(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: 1 chain, 2 chains, 1,200 queries."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
