"""What contract tests need from inside the product, in one place: a move within the house changes this file alone."""

from memory.api.authentication import verified_keys
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.api_keys import NewApiKey, mint_credential

__all__ = ["NewApiKey", "embed_heuristics", "forget_verified_keys", "mint_credential"]


def forget_verified_keys() -> None:
    """Let the next request look its key up in the database."""
    verified_keys.clear()
