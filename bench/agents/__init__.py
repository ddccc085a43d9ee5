"""Agents under measurement: whole dialogues, prompts built again, what runs cost (docs/appendix/agents.md)."""
