"""The page that compares an answer with the same question asked again, or with another answer."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest

from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.retrieval.comparison import FREE_MODES, Move, ask_again, find_moves, list_lessons
from memory.retrieval.models import Retrieval

_MOST_LESSONS, _MOST_TOKENS = 100, 32_000


class AgainForm(forms.Form):
    """Settings to ask again with."""

    mode = forms.ChoiceField(choices=[(mode.value, mode.label) for mode in FREE_MODES])
    top_k = forms.IntegerField(min_value=1, max_value=_MOST_LESSONS, label="Most lessons")
    budget_tokens = forms.IntegerField(min_value=100, max_value=_MOST_TOKENS, label="Most tokens")

    @classmethod
    def for_answer(cls, retrieval: Retrieval, data: Any = None) -> "AgainForm":
        """Return the form with the settings of an answer."""
        mode = retrieval.mode if retrieval.mode in FREE_MODES else FREE_MODES[0]
        budget = min(max(retrieval.budget_tokens, 100), _MOST_TOKENS)
        initial = {"mode": mode, "top_k": min(max(retrieval.top_k, 1), _MOST_LESSONS), "budget_tokens": budget}
        return cls(data, initial=initial)


@dataclass(frozen=True, kw_only=True, slots=True)
class Other:
    """What an answer is compared with."""

    label: str
    mode: str
    tokens: int
    degraded: str
    lessons: list[str]
    retrieval: Retrieval | None = None


def compare_again(request: HttpRequest, retrieval: Retrieval, asked: dict[str, Any]) -> dict[str, Any]:
    """Ask again, and return what the page shows."""
    by = Actor.person(request.user)  # type: ignore[arg-type]  # the admin requires it
    answer = ask_again(retrieval, **asked, by=by)
    other = Other(
        label="Asked again now",
        mode=answer.mode,
        tokens=answer.tokens,
        degraded=answer.degraded,
        lessons=list_lessons(answer.items, name="id"),
    )
    return _compare(retrieval, other)


def compare_with(retrieval: Retrieval, other: Retrieval) -> dict[str, Any]:
    """Return what the page shows about two recorded answers."""
    return _compare(
        retrieval,
        Other(
            label=f"Answer of {other.created_at:%Y-%m-%d %H:%M}",
            mode=other.mode,
            tokens=other.tokens,
            degraded=other.degraded,
            lessons=list_lessons(other.items, name="heuristic"),
            retrieval=other,
        ),
    )


def _compare(retrieval: Retrieval, other: Other) -> dict[str, Any]:
    moves = find_moves(list_lessons(retrieval.items, name="heuristic"), other.lessons)
    ids = [UUID(move.heuristic_id) for move in moves]
    rows = Heuristic.objects.filter(project=retrieval.project_id).select_related("current_revision").in_bulk(ids)
    lessons: list[tuple[Move, Heuristic | None]] = [(move, rows.get(UUID(move.heuristic_id))) for move in moves]
    return {"other": other, "lessons": lessons}
