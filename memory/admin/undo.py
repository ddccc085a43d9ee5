"""The bar that offers to take back the decision just taken."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone

from memory.curation.undo import UNDO_SECONDS, is_undoable
from memory.heuristics.models import Heuristic, Review

_KEY = "decided"


def remember_decision(request: HttpRequest, heuristic: Heuristic) -> None:
    """Keep which decision the person took last."""
    latest = Review.objects.filter(heuristic=heuristic, reviewer_user=request.user.pk).first()
    request.session[_KEY] = str(latest.pk) if latest else ""


def forget_decision(request: HttpRequest) -> None:
    """Offer nothing to take back any more."""
    request.session.pop(_KEY, None)


def find_undoable(request: HttpRequest) -> Review | None:
    """Return the decision the person took last, if it can still be taken back."""
    try:
        pk = UUID(request.session.get(_KEY, ""))
    except ValueError:
        return None
    review = Review.objects.filter(pk=pk).select_related("heuristic__current_revision", "revision").first()
    return review if review is not None and is_undoable(review) else None


def undo_context(request: HttpRequest) -> dict[str, Any]:
    """Return what the bar needs; nothing where there is nothing to take back."""
    review = find_undoable(request)
    if review is None:
        return {}
    age = (timezone.now() - review.created_at).total_seconds()
    return {"undoable": review, "undo_seconds": max(1, round(UNDO_SECONDS - age))}
