"""Mistakes as runs report them: reading a report, and telling whether two report the same mistake."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from memory.heuristics.models import HeuristicRevision
from memory.meaning.comparison import Comparison, MeaningVerdict, compare_texts

# What each part of a report is in a wording.
COLUMNS = {
    "mistake_type": "trigger",
    "task_id": "task_id",
    "worker_id": "worker_id",
    "bad_decision": "avoid",
    "correct_decision": "guideline",
    "lesson": "rationale",
}
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class MistakeText:
    """A reported mistake. At least one of `bad_decision`, `correct_decision` and `lesson` says something."""

    mistake_type: str
    task_id: str = ""
    worker_id: str = ""
    bad_decision: str = ""
    correct_decision: str = ""
    evidence: str = ""
    lesson: str = ""

    @classmethod
    def of(cls, revision: HeuristicRevision) -> Self:
        """Read a wording of a mistake card as a report. It keeps everything but the evidence."""
        return cls(**{name: getattr(revision, column) for name, column in COLUMNS.items()})

    def words(self) -> dict[str, str]:
        """Return what a card keeps in its wordings."""
        return {name: getattr(self, name) for name in COLUMNS}

    def columns(self) -> dict[str, str]:
        """Return the columns of a wording that says this."""
        return {column: getattr(self, name) for name, column in COLUMNS.items()}

    def says_the_same_as(self, other: "MistakeText") -> bool:
        """Compare the words of two texts without case, repeated spaces and final punctuation."""
        return all(_fold(getattr(self, name)) == _fold(getattr(other, name)) for name in COLUMNS)


def compare_mistakes(one: MistakeText, other: MistakeText, *, similarity: float | None = None) -> Comparison:
    """Tell whether two texts report the same mistake: what was wrong and what is right, each where both say it.

    `similarity` is the cosine of their vectors.
    """
    parts = [
        compare_texts(getattr(one, name), getattr(other, name), similarity=similarity)
        for name in ("bad_decision", "correct_decision", "lesson")
        if getattr(one, name) and getattr(other, name)
    ]
    others = [part for part in parts if part.verdict is not MeaningVerdict.SAME]
    if not parts:
        return Comparison(MeaningVerdict.DOUBTFUL, "they say nothing about the same")
    # Two parts that are the same settle a doubt about the third, but no difference
    if not others or (len(parts) - len(others) >= 2 and others[0].verdict is MeaningVerdict.DOUBTFUL):
        return Comparison(MeaningVerdict.SAME)
    return next((part for part in others if part.is_sure), others[0])


def read_mistake(raw: Mapping[str, Any], *, task_id: str = "", worker_id: str = "") -> MistakeText | None:
    """Read a report as agents send it, or return None if it says nothing.

    Args:
        task_id, worker_id: the run's task family and agent, for reports that name none.
    """
    values = {field.name: str(raw.get(field.name) or "").strip() for field in fields(MistakeText)}
    values["task_id"] = values["task_id"] or task_id
    values["worker_id"] = values["worker_id"] or worker_id
    # The type is the wording's trigger, which the database wants filled.
    values["mistake_type"] = values["mistake_type"] or "mistake"
    if not (values["bad_decision"] or values["correct_decision"] or values["lesson"]):
        return None
    return MistakeText(**values)


def identify_mistake(text: MistakeText) -> str:
    """Return the hash of what makes two reports the same mistake: type, task family, worker and correct decision.

    A report without a correct decision is identified by its lesson, or else by its bad decision.
    """
    decision = text.correct_decision or text.lesson or text.bad_decision
    parts = [_fold(part) for part in (text.mistake_type, text.task_id, text.worker_id, decision)]
    # As JSON, so that words cannot move from one part to the next and give the same hash.
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def _fold(text: str) -> str:
    return _SPACE.sub(" ", text).strip(" .!;,").casefold()
