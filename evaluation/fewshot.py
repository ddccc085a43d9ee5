"""Raw runs as examples in a prompt: what agents are given where nobody reflects."""

import json
from collections.abc import Sequence

from memory.heuristics.models import Evidence
from memory.projects.models import Project
from memory.retrieval.context import count_tokens
from memory.retrieval.safe_text import clean
from memory.runs.models import Trajectory

OPEN, CLOSE = "<earlier-runs>", "</earlier-runs>"
HEADER = "Earlier runs of like tasks, as they went:"
MAX_OBSERVATION_CHARACTERS = 400


def write_runs(project: Project, heuristic_ids: Sequence[str], *, budget_tokens: int) -> tuple[str, int]:
    """Return the runs that lessons were learnt from, in the order of the lessons, and their tokens.

    One run a lesson, its newest, none twice; runs that do not fit the budget are left out.
    """
    newest: dict[str, Trajectory] = {}
    evidence = Evidence.objects.filter(project=project, heuristic__in=heuristic_ids).select_related("trajectory")
    for row in evidence.order_by("heuristic_id", "-created_at", "-id"):
        newest.setdefault(str(row.heuristic_id), row.trajectory)
    runs = dict.fromkeys(newest[each] for each in heuristic_ids if each in newest)
    spent = count_tokens(f"{OPEN}\n{HEADER}\n{CLOSE}") + 1
    lines: list[str] = []
    for run in runs:
        line = f"{len(lines) + 1}. {write_run(run)}"
        if spent + count_tokens(line + "\n") <= budget_tokens:
            lines.append(line)
            spent += count_tokens(line + "\n")
    text = "\n".join([OPEN, HEADER, *lines, CLOSE]) if lines else ""
    return text, count_tokens(text)


def write_run(run: Trajectory) -> str:
    """Write one run on one line: its task, and each action with what came of it."""
    steps = []
    for step in run.as_episode().steps:
        action = (
            f"{step.action.name}({json.dumps(step.action.arguments, ensure_ascii=False)})" if step.action else "say"
        )
        heard = clean(step.observation or step.error)[:MAX_OBSERVATION_CHARACTERS]
        steps.append(f"{clean(action)} → {heard}")
    return f"[R-{str(run.pk).replace('-', '')[-8:]}] {clean(run.task)} ⇒ {'; '.join(steps)} (it ended in {run.outcome})"
