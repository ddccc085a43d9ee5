"""Lessons in files: written for agents that read files, and read from those of other tools."""
