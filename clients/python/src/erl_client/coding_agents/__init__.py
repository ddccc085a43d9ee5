"""Coding agents: their hooks, their settings, and the sessions they left."""

AGENTS = ("claude-code", "codex", "cursor", "gemini-cli", "opencode", "qwen-code")
