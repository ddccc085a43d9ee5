"""What pages show of a suggestion: both lessons, what would change, and who has claimed one of them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import Q

from desk.shell.word_diff import DiffPart, diff_heuristics
from memory.heuristics.models import Heuristic
from reflection.consolidation.models import Suggestion

SHOWN = 5  # with a lesson


def find_suggestions(heuristic: Heuristic) -> list[dict[str, Any]]:
    """Return the open suggestions that concern a lesson. One query."""
    rows = (
        Suggestion.objects.filter(Q(heuristic=heuristic) | Q(other=heuristic), status=Suggestion.Status.OPEN)
        .exclude(kind=Suggestion.Kind.NEW)
        .select_related("heuristic__current_revision", "other__current_revision")
        .order_by("created_at", "id")[:SHOWN]
    )
    return [show_suggestion(row) for row in rows]


def show_suggestion(suggestion: Suggestion, *, held_by: str = "") -> dict[str, Any]:
    """Return what a template needs to show a suggestion."""
    return {"row": suggestion, "diff": find_difference(suggestion), "held_by": held_by}


def find_holders(suggestions: Iterable[Suggestion], *, user: Any) -> dict[UUID, str]:
    """Return, of suggestions about a lesson that another reviewer has claimed, the name of that reviewer. One query."""
    about = {row.pk: {row.heuristic_id, row.other_id} - {None} for row in suggestions}
    ids = set().union(*about.values())
    claimed = Heuristic.objects.claimed().filter(pk__in=ids).exclude(claimed_by=user.pk)
    holders = dict(claimed.values_list("pk", "claimed_by__username")) if ids else {}
    names = {pk: next((holders[id] for id in ids if id in holders), "") for pk, ids in about.items()}
    return {pk: name for pk, name in names.items() if name}


def find_difference(suggestion: Suggestion) -> list[DiffPart]:
    """Compare the present words with the new ones, or with those of the lesson that stays."""
    current = suggestion.heuristic.current_revision
    if current is None:
        return []
    kept = suggestion.other.current_revision if suggestion.other else None
    if suggestion.text:
        text: dict[str, Any] = suggestion.text | {"tags": tuple(suggestion.text.get("tags", ()))}
        # A merged wording replaces that of the lesson that stays.
        base = kept if suggestion.kind == Suggestion.Kind.MERGE and kept else current
        return diff_heuristics(base.as_text(), replace(base.as_text(), **text))
    if kept is not None and suggestion.kind == Suggestion.Kind.MERGE:
        return diff_heuristics(current.as_text(), kept.as_text())
    return []
