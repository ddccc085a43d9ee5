"""What a heuristic says, and where in a run it comes from."""

from dataclasses import dataclass

# A heuristic with this tag is a rule: it is for every task of its family, or of the project, and needs no search.
RULE_TAG = "rule"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeuristicText:
    """What a heuristic says. Only `trigger` and `guideline` are required."""

    trigger: str
    guideline: str
    avoid: str = ""
    not_when: str = ""
    rationale: str = ""
    polarity: str = "mixed"
    scope: str = "task_family"
    task_id: str = ""
    tags: tuple[str, ...] = ()
    source_task: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """Where in a run a lesson comes from: steps `first_step` to `last_step`, both counted from 1, and a quote."""

    first_step: int | None = None
    last_step: int | None = None
    quote: str = ""
