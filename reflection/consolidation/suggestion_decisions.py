"""Accept or dismiss a suggestion. Accepting carries it out with the services for lessons."""

from dataclasses import replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from memory.curation.decision_steps import get_current_revision
from memory.curation.decisions import approve_heuristic, reject_heuristic, retire_heuristic
from memory.curation.merge import merge_heuristics
from memory.curation.proposals import revise_heuristic
from memory.curation.reviewers import check_decider
from memory.errors import AlreadyDecided, CannotMerge, ChangedMeanwhile, TooLateToUndo
from memory.heuristics.models import Heuristic
from memory.heuristics.provenance import Sources
from memory.projects.actors import Actor
from memory.review.decisions import UNDO_WITHIN
from reflection.consolidation.models import Suggestion

_Kind = Suggestion.Kind
_Status = Suggestion.Status

# What can be carried out as it is. The others are decided on the page of the lesson.
ACCEPTABLE = frozenset({_Kind.MERGE, _Kind.NARROW, _Kind.GENERALISE, _Kind.RETIRE})


@transaction.atomic
def accept_suggestion(suggestion: Suggestion, *, by: Actor, reason: str = "") -> Suggestion:
    """Do what a suggestion says, to exactly the words it is about, as this person's decision.

    New words for an approved lesson are served at once, because the person who accepts has read them. Those of a
    proposal keep waiting in the queue.

    Raises:
        AlreadyDecided: it, or one of its lessons, was decided on before; or there is nothing to carry out.
        ChangedMeanwhile: a lesson has other words now.
        MemoryAppError: what the service that carries it out raises.
    """
    suggestion = _lock_open(suggestion)
    if suggestion.kind not in ACCEPTABLE:
        raise AlreadyDecided("There is nothing to carry out here: decide on the lessons themselves.")
    why = reason or suggestion.reason
    heuristic = suggestion.heuristic
    match suggestion.kind:
        case _Kind.MERGE:
            if suggestion.other is None:
                raise CannotMerge("The other lesson no longer exists.")
            kept = merge_heuristics(
                heuristic,
                into=suggestion.other,
                content_sha256=suggestion.content_sha256,
                into_sha256=suggestion.other_sha256,
                by=by,
                reason=why,
            )
            if suggestion.text:
                _reword(kept, suggestion, by=by, reason=why, content_sha256=suggestion.other_sha256)
        case _Kind.RETIRE:
            _check_unchanged(heuristic, suggestion)
            if heuristic.status == Heuristic.Status.PROPOSED:
                reject_heuristic(heuristic, by=by, content_sha256=suggestion.content_sha256, reason=why)
            else:
                retire_heuristic(heuristic, by=by, reason=why)
        case _:
            _reword(heuristic, suggestion, by=by, reason=why, content_sha256=suggestion.content_sha256)
    return _close(suggestion, status=_Status.ACCEPTED, by=by, reason=reason)


@transaction.atomic
def dismiss_suggestion(suggestion: Suggestion, *, by: Actor, reason: str = "") -> Suggestion:
    """Leave everything as it is; the same is not suggested again.

    Raises:
        AlreadyDecided: it was decided on before.
        NotAllowed: this actor may not decide on the lesson.
    """
    suggestion = _lock_open(suggestion)
    # To leave a lesson as it is, is a decision on it too.
    check_decider(suggestion.heuristic, by=by)
    return _close(suggestion, status=_Status.DISMISSED, by=by, reason=reason)


@transaction.atomic
def reopen_suggestion(suggestion: Suggestion, *, by: Actor) -> Suggestion:
    """Let a suggestion that this actor dismissed by mistake wait again.

    Raises:
        TooLateToUndo: it was not dismissed, by another person, or too long ago.
        NotAllowed: this actor may not decide on the lesson.
    """
    suggestion = Suggestion.objects.select_for_update(of=("self",)).select_related("heuristic").get(pk=suggestion.pk)
    check_decider(suggestion.heuristic, by=by)
    recent = suggestion.decided_at is not None and timezone.now() - suggestion.decided_at < UNDO_WITHIN
    if suggestion.status != _Status.DISMISSED or suggestion.decided_by != by.label or not recent:
        raise TooLateToUndo("Only a dismissal of your own can be undone, and only at once.")
    suggestion.status, suggestion.decided_by, suggestion.decided_at = _Status.OPEN, "", None
    suggestion.decision_reason = ""
    suggestion.save(update_fields=["status", "decided_by", "decided_at", "decision_reason"])
    return suggestion


def _lock_open(suggestion: Suggestion) -> Suggestion:
    rows = Suggestion.objects.select_for_update(of=("self",)).select_related(
        "heuristic__current_revision", "other__current_revision"
    )
    suggestion = rows.get(pk=suggestion.pk)
    # Read under the lock: of two people who decide at once, the second is told.
    if suggestion.status != _Status.OPEN:
        raise AlreadyDecided(f"This suggestion was already {suggestion.get_status_display()}, so nothing was changed.")
    return suggestion


def _reword(heuristic: Heuristic, suggestion: Suggestion, *, by: Actor, reason: str, content_sha256: str) -> None:
    text = dict(suggestion.text)
    was_approved = heuristic.status == Heuristic.Status.APPROVED
    words: dict[str, Any] = text | {"tags": tuple(text.get("tags", ()))}
    check_decider(heuristic, by=by)
    current = get_current_revision(heuristic, content_sha256=content_sha256)
    revised = revise_heuristic(
        heuristic,
        text=replace(current.as_text(), **words),  # how long it holds stays as it is
        by=by,
        content_sha256=content_sha256,
        # Without them an erased run could live on in the new wording.
        sources=_find_sources(suggestion),
        waits=not was_approved,
    )
    if was_approved:
        # The new wording is now the words of the suggestion.
        revision = get_current_revision(revised, content_sha256=None)
        approve_heuristic(revised, by=by, content_sha256=revision.content_sha256, reason=reason)


def _find_sources(suggestion: Suggestion) -> Sources:
    """Return what the words of a suggestion were written from: the lessons it is about, and the runs it names."""
    lessons = [lesson for lesson in (suggestion.heuristic, suggestion.other) if lesson is not None]
    return Sources(
        wordings=tuple(lesson.current_revision_id for lesson in lessons if lesson.current_revision_id is not None),
        runs=tuple(suggestion.evidence.values_list("trajectory_id", flat=True)),
    )


def _check_unchanged(heuristic: Heuristic, suggestion: Suggestion) -> None:
    current = heuristic.current_revision
    if current is None or current.content_sha256 != suggestion.content_sha256:
        raise ChangedMeanwhile(
            "The lesson's words have changed since this suggestion was made. Decide on its own page."
        )


def _close(suggestion: Suggestion, *, status: str, by: Actor, reason: str) -> Suggestion:
    suggestion.status = status
    suggestion.decided_by, suggestion.decided_at = by.label, timezone.now()
    suggestion.decision_reason = reason
    suggestion.save(update_fields=["status", "decided_by", "decided_at", "decision_reason"])
    return suggestion
