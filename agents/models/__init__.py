"""The models of the app, listed for Django. Import them from their modules."""

from agents.models.tools import Tool, ToolRevision

__all__ = ["Tool", "ToolRevision"]
