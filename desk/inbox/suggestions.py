"""Suggestions of a consolidation in the inbox."""

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from django.db.models import QuerySet

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab, read_reason
from desk.reflections.suggestions import find_holders, show_suggestion
from desk.shell.requests import read_id
from memory.errors import MemoryAppError
from memory.limits import MAX_REASON_CHARS
from memory.projects.actors import Actor
from reflection.consolidation.models import Suggestion
from reflection.consolidation.suggestion_decisions import (
    ACCEPTABLE,
    accept_suggestion,
    dismiss_suggestion,
    reopen_suggestion,
)

DONE = {
    Suggestion.Kind.MERGE: "Merged. The other lesson has the evidence of both.",
    Suggestion.Kind.RETIRE: "Retired. The records keep it with the reason.",
    Suggestion.Kind.NARROW: "Narrowed. The lesson now has the new words.",
    Suggestion.Kind.GENERALISE: "Widened. The lesson now applies to the whole project.",
}
_ACCEPT = {Suggestion.Kind.MERGE: "Merge", Suggestion.Kind.RETIRE: "Retire"}
_DISMISSED = "Dismissed. It will not be suggested again."


class SuggestionItems(ItemKind):
    """A suggestion to merge, narrow, widen or retire lessons, or that two contradict each other."""

    name = "suggestion"
    noun = "suggestion"
    label = "Suggestions"
    model = Suggestion
    related = ("project", "heuristic__current_revision", "other__current_revision")
    permission = "reflection.view_suggestion"

    def waiting(self) -> QuerySet[Suggestion]:
        return Suggestion.objects.filter(status=Suggestion.Status.OPEN).exclude(kind=Suggestion.Kind.NEW)

    def queue(self, user: Any, query: str) -> QuerySet[Suggestion]:
        rows = super().queue(user, query)
        run = read_id(dict(parse_qsl(query)).get("run"))
        return rows.filter(run=run) if run else rows

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        suggestions = list(self.queue(user, query).select_related(*self.related).order_by(*self.order)[:limit])
        holders = find_holders(suggestions, user=user)
        return [replace(self.write_row(item), held_by=holders.get(item.pk, "")) for item in suggestions]

    def write_row(self, item: Suggestion) -> ItemRow:
        revision = item.heuristic.current_revision
        return ItemRow(
            kind=self.name,
            id=item.pk,
            title=revision.trigger if revision else "",
            then=item.reason,
            why=item.get_kind_display(),
            since=item.created_at,
        )

    def draw_item(self, item: Suggestion, *, user: Any) -> Pane:
        may_decide = self.may_decide(user, item)
        holder = find_holders([item], user=user).get(item.pk, "")
        no = "" if may_decide else "You may only read this suggestion."
        closed = no or ("" if item.status == Suggestion.Status.OPEN else "This suggestion was already decided.")
        elsewhere = "" if item.kind in ACCEPTABLE else "Decide on the lessons themselves, or keep both with r."
        held = f"{holder} has claimed a lesson that this is about." if holder else ""
        accept = _ACCEPT.get(Suggestion.Kind(item.kind), "Use new wording")
        dismiss = "Keep both" if item.kind == Suggestion.Kind.CONTRADICTION else "Dismiss"
        return Pane(
            kind=self,
            id=item.pk,
            sha256=item.fingerprint,
            heading=f"Suggestion: {item.get_kind_display().lower()}",
            template="admin/reflection/suggestion_words.html",
            context={
                "suggestion": show_suggestion(item, held_by=holder),
                "evidence": item.evidence.select_related("trajectory"),
            },
            actions=[
                Button(key="a", decision="accept", label=accept, tone="good", disabled=closed or elsewhere or held),
                Button(key="e", decision="edit", label="Edit", disabled="Edit the lesson on its own page."),
                Button(key="r", decision="dismiss", label=dismiss, tone="bad", disabled=closed),
            ],
            tabs=[Tab(name="evidence", label="Runs", template="admin/reflection/suggestion_evidence.html")],
            note="" if may_decide else f"You can only read this page. {self.not_allowed}",
        )

    def carry_out(self, item: Suggestion, *, user: Any, data: Any) -> Done:
        by, reason = Actor.person(user), read_reason(data)[:MAX_REASON_CHARS]
        match data.get("decision"):
            case "accept":
                accept_suggestion(item, by=by, reason=reason)
                return Done(said=DONE[Suggestion.Kind(item.kind)])
            case "dismiss":
                dismiss_suggestion(item, by=by, reason=reason)
                return Done(said=_DISMISSED, undo=str(item.pk))
            case _:
                raise MemoryAppError("Choose one of the buttons.")

    def undo(self, user: Any, token: str, *, by: Actor) -> str:
        # A suggestion has no reviews: what was dismissed is opened again.
        id = read_id(token)
        suggestion = self.find(user, id) if id else None
        if suggestion is None:
            raise MemoryAppError("This suggestion no longer exists.")
        reopen_suggestion(suggestion, by=by)
        return "Undone. It is waiting for a decision again."


SUGGESTIONS = SuggestionItems()
