"""What a model is shown of notes, lessons and runs: redacted, and cut to size."""

from typing import Any

from memory.redaction import redact_text
from memory.runs.models import Trajectory
from reflection.consolidation.sources import Lesson, RecordedNote
from reflection.prompts import cut_middle

RUNS_SHOWN = 3
TEXT_CHARACTERS = 500


def show_note(note: RecordedNote) -> dict[str, Any]:
    return {
        "family": note.family,
        "score": note.score,
        "kind": note.kind,
        "note": cut_middle(redact_text(note.text), TEXT_CHARACTERS),
    }


def show_lesson(label: str, lesson: Lesson) -> dict[str, Any]:
    text = lesson.revision
    shown: dict[str, Any] = {
        "label": label,
        "trigger": redact_text(text.trigger),
        "action": redact_text(text.guideline),
        "avoid": redact_text(text.avoid),
        "not_when": redact_text(text.not_when),
        "polarity": text.polarity,
        "family": lesson.place,
        "runs": lesson.support,
        "approved": lesson.status == "approved",
    }
    return {name: value for name, value in shown.items() if value not in ("", None)}


def show_run(run: Trajectory) -> dict[str, Any]:
    """Show how a run ended: its task, what was noted, its errors and its last steps."""
    episode = run.as_episode()
    steps = [
        {
            "step": step.index,
            "tool": step.action.name if step.action else "",
            "observation": cut_middle(redact_text(step.observation), TEXT_CHARACTERS),
            "error": cut_middle(redact_text(step.error), TEXT_CHARACTERS),
        }
        for step in episode.steps
        if step.error or step.index > len(episode.steps) - RUNS_SHOWN
    ]
    return {
        "task": cut_middle(redact_text(run.task), TEXT_CHARACTERS),
        "family": run.task_id,
        "score": run.score,
        "summary": cut_middle(redact_text(run.summary), TEXT_CHARACTERS),
        "mistakes": [cut_middle(redact_text(mistake), TEXT_CHARACTERS) for mistake in run.mistakes[:RUNS_SHOWN]],
        "steps": steps[-8:],
    }
