"""What is shown of a mistake card, and the decisions on it as a form names them."""

from collections.abc import Mapping
from typing import Any

from desk.shell.requests import read_id
from desk.shell.word_diff import diff_words
from memory.curation.decisions import reject_heuristic, retire_heuristic
from memory.errors import MemoryAppError
from memory.heuristics.models import HeuristicRevision
from memory.mistakes.decisions import approve_card, confirm_count, reopen_card
from memory.mistakes.merge import merge_cards, undo_merge
from memory.mistakes.models import MistakeCard
from memory.mistakes.reports import MistakeText
from memory.mistakes.similarity import find_similar_cards
from memory.projects.actors import Actor
from memory.retrieval.context import count_tokens
from memory.retrieval.record_block import Mistake, write_mistake

DONE = {
    "approve": "Approved. Agents get it from now on.",
    "reject": "Rejected. Its runs are still counted.",
    "retire": "Retired. Agents no longer get it.",
    "confirm_count": "The current count decides its place from now on.",
    "reopen": "It is waiting for a decision again.",
    "merge": "Merged. Its runs count with the other card's; the merge can be undone there.",
    "undo_merge": "Merge undone. Each card counts its own runs, and the two are not merged automatically again.",
}
SHOWN_RUNS, SHOWN_NEIGHBOURS = 20, 5
NEIGHBOURS_FROM = 0.6  # the lowest cosine of a card worth comparing


def card_context(card: MistakeCard, *, may_review: bool) -> dict[str, Any]:
    """Collect what the templates need, in a fixed number of queries."""
    revision = card.newest
    served = card.revisions.filter(served=True).first()
    line = write_card_line(card, revision)
    waiting = card.status == MistakeCard.Status.PROPOSED
    older = served if served is not None and served.pk != revision.pk else None
    others = MistakeCard.objects.filter(project=card.project_id).with_text()
    parted = others.filter(details__undone_merges__contains=[{"into": str(card.pk)}])
    return {
        "card": card,
        "revision": revision,
        "served": served,
        "difference": diff_words(_spell_out(older), _spell_out(revision)) if older else None,
        "agent_line": line,
        "tokens": count_tokens(line + "\n"),
        "waiting": waiting,
        "may_review": may_review,
        "sightings": list(card.evidence.select_related("trajectory").order_by("-created_at", "-id")[:SHOWN_RUNS]),
        "merge": card.merge,
        "into": card.superseded_by,
        "received": list(others.filter(superseded_by=card.pk)),
        "undone": [
            (other, merge) for other in parted for merge in other.undone_merges if merge["into"] == str(card.pk)
        ],
        "neighbours": _find_neighbours(card, revision) if waiting or served is not None else [],
        "reviews": list(card.reviews.select_related("revision")),
    }


def write_card_line(card: MistakeCard, revision: HeuristicRevision) -> str:
    """Return the card as an agent reads it in the prompt."""
    text = MistakeText.of(revision)
    mistake = Mistake(
        id=str(card.pk),
        seen_count=card.support,
        mistake_type=text.mistake_type,
        bad_decision=text.bad_decision,
        correct_decision=text.correct_decision,
        lesson=text.lesson,
    )
    return write_mistake(mistake)[0]


def _find_neighbours(card: MistakeCard, revision: HeuristicRevision) -> list[dict[str, Any]]:
    """Return other cards that may say the same, with the similarity in percent."""
    similar = find_similar_cards(card.pk, floor=NEIGHBOURS_FROM, limit=SHOWN_NEIGHBOURS)
    cards = MistakeCard.objects.with_text().in_bulk([card_id for card_id, _ in similar])
    return [
        {
            "card": cards[card_id],
            "percent": round(100 * similarity),
            "diff": diff_words(_spell_out(revision), _spell_out(cards[card_id].current_revision)),
        }
        for card_id, similarity in similar
        if card_id in cards
    ]


def _spell_out(revision: HeuristicRevision | None) -> str:
    assert revision is not None  # every card is made with one
    lines = [f"Mistake: {revision.avoid}", f"Instead: {revision.guideline}", f"Lesson: {revision.rationale}"]
    return "\n".join(line for line in lines if not line.endswith(": "))


def carry_out(card: MistakeCard, decision: str, *, data: Mapping[str, Any], by: Actor) -> None:
    """Carry out one decision of a form.

    Raises:
        MemoryAppError: it cannot be taken now, or the form names another card or merge that does not exist.
    """
    reason, sha256 = data.get("reason", "").strip(), data.get("content_sha256", "")
    if decision in ("approve", "reject") and not sha256:
        raise MemoryAppError(
            "Nothing was decided, because the form does not say which words you read. Open the card's page, read it "
            "and decide with its buttons (other programs send its content_sha256)."
        )
    cards = MistakeCard.objects.filter(project=card.project_id)
    match decision:
        case "approve":
            approve_card(card, by=by, content_sha256=sha256, reason=reason)
        case "reject":
            reject_heuristic(card, by=by, content_sha256=sha256, reason=reason)
        case "retire":
            retire_heuristic(card, by=by, reason=reason)
        case "confirm_count":
            confirm_count(card, by=by, reason=reason)
        case "reopen":
            reopen_card(card, by=by)
        case "merge":
            # What is no id is read as None, which no row has.
            into = cards.filter(pk__in=[read_id(data.get("into"))]).first()
            if into is None:
                raise MemoryAppError("The other card no longer exists. Reload the page and choose another.")
            merge_cards(card, into=into, by=by, reason=reason)
        case "undo_merge":
            merged = cards.filter(pk__in=[read_id(data.get("merge"))]).first()
            if merged is None or card.pk not in (merged.pk, merged.superseded_by_id):
                raise MemoryAppError("This merge no longer exists. Reload the page.")
            undo_merge(merged, by=by, reason=reason)
        case _:
            raise MemoryAppError("Choose one of the buttons.")
