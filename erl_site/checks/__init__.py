"""System checks, so that `manage.py check` finds configuration errors and gives hints."""

from erl_site.checks import database, limits, llm, names, services

__all__ = ["database", "limits", "llm", "names", "services"]
