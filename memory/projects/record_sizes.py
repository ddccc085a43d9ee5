"""Sections of the record in the context block, and how many lines of each a project wants at most."""

# Sections of the record in the context block, in the order they are written, and most lines of each.
RECORD_SIZES: dict[str, int] = {
    "task_rules": 5,
    "general_rules": 3,
    "mistakes": 3,
    "mistake_cards": 3,
    "recent_outcomes": 5,
    "mean_score": 1,
}
MAX_RECORD_SIZE = 50
