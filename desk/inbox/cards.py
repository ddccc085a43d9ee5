"""Mistake cards in the inbox."""

from typing import Any

from django.db.models import QuerySet
from django.template.defaultfilters import pluralize

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab, find_undo, read_reason
from desk.lessons.mistake_desk import DONE, card_context, carry_out
from memory.mistakes.decisions import undo_card_review
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.review.models import Review

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
    model = MistakeCard
    related = ("current_revision", "project")
    order = ("-support", "-id")
    permission = "memory.view_mistakecard"
    decides = "memory.review_mistakecard"
    right = "review mistake cards"
    reviews = (Review.Kind.MISTAKE,)

    def waiting(self) -> QuerySet[MistakeCard]:
        return MistakeCard.objects.proposed()

    def visible(self, rows: QuerySet[MistakeCard], user: Any) -> QuerySet[MistakeCard]:
        return super().visible(rows, user).filter(current_revision__isnull=False)

    def write_row(self, item: MistakeCard) -> ItemRow:
        revision = item.newest
        return ItemRow(
            kind=self.name,
            id=item.pk,
            title=revision.avoid or revision.trigger,
            then=revision.guideline or revision.rationale,
            why=f"seen in {item.support} run{pluralize(item.support)}",
            since=item.created_at,
        )

    def draw_item(self, item: MistakeCard, *, user: Any) -> Pane:
        may_decide = self.may_decide(user, item)
        context = card_context(item, may_review=may_decide)
        revision, waiting = context["revision"], context["waiting"]
        no = "" if may_decide else "You may only read this card."
        undecided = no or ("" if waiting else "This card is not waiting for a decision.")
        served = no or ("" if context["served"] and not context["merge"] else "Agents are not given this card.")
        status = "merged" if context["merge"] else item.get_status_display().lower()
        return Pane(
            kind=self,
            id=item.pk,
            sha256=revision.content_sha256,
            heading="Mistake card" if waiting else f"Mistake card: {status}",
            template=f"{_FOLDER}/words.html",
            context=context,
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
            note="" if may_decide else f"You can only read this page. {self.not_allowed}",
        )

    def carry_out(self, item: MistakeCard, *, user: Any, data: Any) -> Done:
        decision = data.get("decision", "")
        carry_out(item, decision, data={**data.dict(), "reason": read_reason(data)}, by=Actor.person(user))
        undo = find_undo(item, user) if decision in ("approve", "reject") else ""
        return Done(said=DONE[decision], undo=undo, stays=decision in _STAYING)

    def undo_review(self, review: Review, *, by: Actor) -> object:
        return undo_card_review(review, by=by)


CARDS = CardKind()
