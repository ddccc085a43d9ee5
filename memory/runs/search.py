"""Find runs by words of their task and their steps; the index is in memory/sql/search.sql."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.search import SearchQuery, SearchVectorField
from django.db.models import F, Func, QuerySet

from memory.runs.models import Trajectory

_SPLIT = str.maketrans("_/.:@=-", "       ")  # as memory_run_words has it
_WORD = re.compile(r"\w+")
_AROUND_CHARS = 70


_SHOWN = ("task", "outcome", "agent", "user_id", "steps", "stated_step_count", "created_at")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunExcerpt:
    """Where the words stand: the step, or None for the task, and the text around the first of them."""

    step: int | None
    before: str = ""
    match: str = ""
    after: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundRun:
    """A run that has all the words."""

    pk: UUID
    task: str
    outcome: str
    agent: str
    user_id: str
    steps: int
    created_at: datetime
    passage: RunExcerpt


def split_words(text: str) -> list[str]:
    """Return the words of a search as the index has them."""
    return _WORD.findall(text.translate(_SPLIT).lower())


def with_words(rows: QuerySet[Trajectory], text: str) -> QuerySet[Trajectory]:
    """Keep ended runs that have all the words; the last may be the beginning of one. Uses the index."""
    words = split_words(text)
    if not words:
        return rows.none()
    # `split_words` leaves letters and digits alone, so no word can be an operator.
    query = SearchQuery(" & ".join(f"'{word}'" for word in words) + ":*", search_type="raw", config="simple")
    has = Func(F("task"), F("steps"), function="memory_run_words", output_field=SearchVectorField())
    return rows.filter(is_open=False).alias(words=has).filter(words=query)


def find_runs(
    text: str, *, limit: int, narrow: Callable[[QuerySet[Trajectory]], QuerySet[Trajectory]]
) -> list[FoundRun]:
    """Find the newest runs that have all the words, each with the passage where they stand. One query."""
    rows = with_words(narrow(Trajectory.objects.all()), text).order_by("-created_at", "-id")
    words = split_words(text)
    return [
        FoundRun(
            pk=run.pk,
            task=run.task,
            outcome=run.outcome,
            agent=run.agent,
            user_id=run.user_id,
            steps=run.number_of_steps,
            created_at=run.created_at,
            passage=_find_passage(run.task, run.steps, words),
        )
        for run in rows.only(*_SHOWN)[:limit]
    ]


def _find_passage(task: str, steps: list[dict[str, Any]], words: list[str]) -> RunExcerpt:
    """Return the first step with all the words, else the first with one that the task lacks."""
    if _count(task, words) == len(words):
        return RunExcerpt(step=None)
    best, most = RunExcerpt(step=None), 0
    for raw in steps:
        text = " ".join(_texts(raw))
        count = _count(text, words)
        if count > most:
            best, most = _cut(text, words, raw["index"]), count
        if count == len(words):
            break
    return best


def _count(text: str, words: list[str]) -> int:
    lowered = text.lower()
    return sum(word in lowered for word in words)


def _cut(text: str, words: list[str], step: int) -> RunExcerpt:
    match = re.search("|".join(re.escape(word) for word in words), text, re.IGNORECASE)
    if match is None:
        return RunExcerpt(step=step)
    start, end = match.span()
    return RunExcerpt(
        step=step,
        before=("…" if start > _AROUND_CHARS else "") + text[max(start - _AROUND_CHARS, 0) : start],
        match=match.group(),
        after=text[end : end + _AROUND_CHARS] + ("…" if len(text) > end + _AROUND_CHARS else ""),
    )


def _texts(raw: dict[str, Any]) -> Iterator[str]:
    action = raw.get("action") or {}
    yield raw.get("thought", "")
    yield action.get("name", "")
    if action.get("arguments"):
        yield json.dumps(action["arguments"], ensure_ascii=False)
    yield raw.get("error", "")
    yield raw.get("observation", "")
