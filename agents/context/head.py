"""The beginning of every prompt of a run: instructions, memory, lessons. It stays the same while the run lasts."""

from agents.models.runs import Run


def write_head(run: Run, *, lessons: str) -> str:
    """Return the head for a run that begins now."""
    parts = [run.revision.system, write_blocks(run), lessons]
    return "\n\n".join(part for part in parts if part)


def write_blocks(run: Run) -> str:
    """Return the agent's blocks as they are now."""
    return ""
