"""System checks: a wrong configuration is found by `manage.py check`, with a hint. One module for each concern."""

from erl_site.checks import database, limits, llm, services

__all__ = ["database", "limits", "llm", "services"]
