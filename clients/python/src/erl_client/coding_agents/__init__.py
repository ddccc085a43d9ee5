"""Coding agents: their hooks, their settings, and the sessions they left."""
