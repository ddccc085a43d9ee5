"""What a heuristic says, where in a run it comes from, and rules: heuristics that are given without a search."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

# A heuristic with this tag is a rule: it is for every task of its family, or of the project, and needs no search.
RULE_TAG = "rule"
VALIDITY = ("valid_until", "expires_after")
WORKS_MARK, AVOID_MARK = "[WORKS]", "[AVOID]"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeuristicText:
    """What a heuristic says, and how long it holds. Only `trigger` and `guideline` are required.

    It ends at `valid_until`, or `expires_after` its approval, whichever comes first.
    """

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
    valid_until: datetime | None = None
    expires_after: timedelta | None = None

    def as_words(self) -> dict[str, Any]:
        """Return what it says, ready for JSON, without how long it holds."""
        words = asdict(self) | {"tags": list(self.tags)}
        return {name: value for name, value in words.items() if name not in VALIDITY}


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """Where in a run a lesson comes from: steps `first_step` to `last_step`, both counted from 1, and a quote."""

    first_step: int | None = None
    last_step: int | None = None
    quote: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Authorship:
    """What wrote a heuristic, in which version and how confidently, and the API client it came from.

    Where a person or an agent wrote it, `reflector` is "".
    """

    reflector: str = ""
    reflector_version: str = ""
    model: str = ""
    prompt_version: str = ""
    confidence: float | None = None
    client: str = ""


def get_rule_trigger(task_id: str) -> str:
    """Return the condition of a rule: every task of a family, or every task where the family is ""."""
    return f"a task of the family {task_id} begins" if task_id else "any task begins"


def make_rule(words: str, *, polarity: str, task_id: str = "") -> HeuristicText:
    """Write a rule for every task of a family, or of the project where `task_id` is "".

    Args:
        words: what to do, or what to avoid where `polarity` is "avoid".
    """
    return HeuristicText(
        trigger=get_rule_trigger(task_id),
        guideline=words,
        polarity=polarity,
        scope="task_family" if task_id else "project",
        task_id=task_id,
        tags=(RULE_TAG,),
    )


def split_mark(words: str) -> tuple[str, str]:
    """Return the polarity and the words of a rule as agents' own memory files write it: `[AVOID] …`."""
    for mark, polarity in ((WORKS_MARK, "works"), (AVOID_MARK, "avoid")):
        if words.upper().startswith(mark):
            return polarity, words[len(mark) :].strip()
    return "mixed", words.strip()
