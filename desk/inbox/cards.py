"""Mistake cards in the inbox."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.template.defaultfilters import pluralize
from django.urls import reverse

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab
from desk.lessons.mistake_desk import DONE, card_context, carry_out
from memory.errors import TooLateToUndo
from memory.mistakes.decisions import undo_card_review
from memory.mistakes.models import MistakeCard
from memory.projects.access import narrow_to_projects
from memory.projects.actors import Actor
from memory.review.models import Review
from memory.rows import find_row

REASONS = [
    ("Not a mistake", "Not a mistake"),
    ("Too general to act on", "Too general"),
    ("Applies to this one case only", "One case only"),
    ("The correction is wrong", "Wrong correction"),
    ("Not proven by its runs", "Not proven"),
    ("Another card says it", "Duplicate"),
]
_TABS = {"evidence": "Runs", "similar": "Similar", "history": "History"}
_FOLDER = "admin/memory/mistakecard"
_STAYING = ("reopen", "confirm_count", "undo_merge")


class CardKind(ItemKind):
    """A mistake card that waits for a decision, those seen most often first."""

    name = "card"
    noun = "mistake card"
    label = "Mistake cards"
    permission = "memory.view_mistakecard"
    decides = "memory.review_mistakecard"

    def waiting(self) -> QuerySet[MistakeCard]:
        return MistakeCard.objects.proposed()

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        found = self.queue(user, query).select_related("current_revision").order_by("-support", "-id")
        return [self._write_row(card) for card in found[:limit]]

    def _write_row(self, card: MistakeCard) -> ItemRow:
        revision = card.newest
        return ItemRow(
            kind=self.name,
            id=card.pk,
            title=revision.avoid or revision.trigger,
            then=revision.guideline or revision.rationale,
            why=f"seen in {card.support} run{pluralize(card.support)}",
            since=card.created_at,
        )

    def draw(self, user: Any, id: UUID) -> Pane | None:
        card = self.find(user, id)
        return self.draw_card(card, user=user) if card is not None else None

    def draw_card(self, card: MistakeCard, *, user: Any) -> Pane:
        """Return a card with all its tabs."""
        may_review = self.may_decide(user, card.project_id)
        context = card_context(card, may_review=may_review)
        revision, waiting = context["revision"], context["waiting"]
        no = "" if may_review else "You may only read this card."
        undecided = no or ("" if waiting else "This card is not waiting for a decision.")
        served = no or ("" if context["served"] and not context["merge"] else "Agents are not given this card.")
        status = "merged" if context["merge"] else card.get_status_display().lower()
        return Pane(
            kind=self,
            id=card.pk,
            sha256=revision.content_sha256,
            heading="Mistake card" if waiting else f"Mistake card: {status}",
            template=f"{_FOLDER}/words.html",
            context=context,
            page=reverse("admin:memory_mistakecard_change", args=[card.pk]),
            actions=[
                Button(key="a", decision="approve", label="Approve", tone="good", disabled=undecided),
                Button(key="e", decision="edit", label="Edit", disabled="A card cannot be edited here."),
                Button(key="r", decision="reject", label="Reject", asks="reason", tone="bad", disabled=undecided),
                Button(key="d", decision="merge", label="Duplicate", asks="similar", disabled=undecided),
                Button(key="t", decision="retire", label="Retire", asks="reason", disabled=served),
            ],
            tabs=[Tab(name=name, label=label, template=f"{_FOLDER}/{name}.html") for name, label in _TABS.items()],
            hidden={"content_sha256": revision.content_sha256},
            reasons=REASONS,
            note=""
            if may_review
            else "You can read this page. To decide you need the permission “review mistake cards” and the role of a "
            "reviewer in this project.",
        )

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        card = self.find(user, id)
        return self.decide_on(card, user=user, data=data) if card is not None else None

    def decide_on(self, card: MistakeCard, *, user: Any, data: Any) -> Done:
        """Carry out what a form says about a card, as `decide` does."""
        if not self.may_decide(user, card.project_id):
            raise PermissionDenied("You need the permission “review mistake cards” to decide on this page.")
        decision = data.get("decision", "")
        reason = ": ".join(part for part in (data.get("reason_code", ""), data.get("reason", "").strip()) if part)
        by = Actor.person(user)
        carry_out(card, decision, data={**data.dict(), "reason": reason}, by=by)
        latest = card.reviews.filter(reviewer=by.label).first()
        is_undoable = decision in ("approve", "reject") and latest is not None
        return Done(
            said=DONE[decision], undo=str(latest.pk) if is_undoable and latest else "", stays=decision in _STAYING
        )

    def undo(self, user: Any, token: str, *, by: Actor) -> str:
        reviews = narrow_to_projects(Review.objects.filter(kind=Review.Kind.MISTAKE), user)
        try:
            review = find_row(reviews.filter(pk=UUID(token)))
        except ValueError:
            review = None
        if review is None:
            raise TooLateToUndo("This decision no longer exists. Look at the card's history.")
        undo_card_review(review, by=by)
        return "Undone. It is waiting for a decision again; both decisions stay on record."

    def find(self, user: Any, id: UUID) -> MistakeCard | None:
        cards = MistakeCard.objects.select_related("current_revision", "project")
        return find_row(narrow_to_projects(cards, user).filter(pk=id, current_revision__isnull=False))


CARDS = CardKind()
