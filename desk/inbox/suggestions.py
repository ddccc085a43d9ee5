"""Suggestions of a consolidation in the inbox."""

from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.urls import reverse

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab
from desk.reflections.suggestions import find_holders, show_suggestion
from memory.errors import MemoryAppError
from memory.projects.access import narrow_to_projects
from memory.projects.actors import Actor
from memory.rows import find_row
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
    permission = "reflection.view_suggestion"

    def waiting(self) -> QuerySet[Suggestion]:
        return Suggestion.objects.filter(status=Suggestion.Status.OPEN).exclude(kind=Suggestion.Kind.NEW)

    def queue(self, user: Any, query: str) -> QuerySet[Suggestion]:
        rows = super().queue(user, query)
        run = dict(parse_qsl(query)).get("run", "")
        try:
            return rows.filter(run=UUID(run)) if run else rows
        except ValueError:
            return rows

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        rows = self.queue(user, query).select_related("heuristic__current_revision").order_by("created_at", "id")
        found = list(rows[:limit])
        holders = find_holders(found, user=user)
        return [self._write_row(suggestion, holders.get(suggestion.pk, "")) for suggestion in found]

    def _write_row(self, suggestion: Suggestion, held_by: str) -> ItemRow:
        revision = suggestion.heuristic.current_revision
        return ItemRow(
            kind=self.name,
            id=suggestion.pk,
            title=revision.trigger if revision else "",
            then=suggestion.reason,
            why=suggestion.get_kind_display(),
            since=suggestion.created_at,
            held_by=held_by,
        )

    def draw(self, user: Any, id: UUID) -> Pane | None:
        suggestion = self.find(user, id)
        return self.draw_suggestion(suggestion, user=user) if suggestion is not None else None

    def draw_suggestion(self, suggestion: Suggestion, *, user: Any) -> Pane:
        """Return a suggestion with the lessons it is about."""
        allowed = self.may_decide(user, suggestion.project_id)
        holder = find_holders([suggestion], user=user).get(suggestion.pk, "")
        no = "" if allowed else "You may only read this suggestion."
        closed = no or ("" if suggestion.status == Suggestion.Status.OPEN else "This suggestion was already decided.")
        elsewhere = "" if suggestion.kind in ACCEPTABLE else "Decide on the lessons themselves, or keep both with r."
        held = f"{holder} has claimed a lesson that this is about." if holder else ""
        contradicts = suggestion.kind == Suggestion.Kind.CONTRADICTION
        accept = _ACCEPT.get(Suggestion.Kind(suggestion.kind), "Use new wording")
        dismiss = "Keep both" if contradicts else "Dismiss"
        return Pane(
            kind=self,
            id=suggestion.pk,
            sha256=suggestion.fingerprint,
            heading=f"Suggestion: {suggestion.get_kind_display().lower()}",
            template="admin/reflection/suggestion_words.html",
            context={
                "suggestion": show_suggestion(suggestion, held_by=holder),
                "evidence": suggestion.evidence.select_related("trajectory"),
                "may_review": allowed,
            },
            page=reverse("admin:reflection_suggestion_change", args=[suggestion.pk]),
            actions=[
                Button(key="a", decision="accept", label=accept, tone="good", disabled=closed or elsewhere or held),
                Button(key="e", decision="edit", label="Edit", disabled="Edit the lesson on its own page."),
                Button(key="r", decision="dismiss", label=dismiss, tone="bad", disabled=closed),
            ],
            tabs=[Tab(name="evidence", label="Runs", template="admin/reflection/suggestion_evidence.html")],
            note=no
            and "You can only read this page. To decide, you need the permission “review heuristics” and the "
            "role of a reviewer in this project.",
            held_by="",
        )

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        suggestion = self.find(user, id)
        return self.decide_on(suggestion, user=user, data=data) if suggestion is not None else None

    def decide_on(self, suggestion: Suggestion, *, user: Any, data: Any) -> Done:
        """Carry out what a form says about a suggestion, as `decide` does."""
        if not self.may_decide(user, suggestion.project_id):
            raise PermissionDenied("You need the permission “review heuristics” in this project to decide here.")
        by, reason = Actor.person(user), data.get("reason", "")[:2000]
        match data.get("decision"):
            case "accept":
                accept_suggestion(suggestion, by=by, reason=reason)
                return Done(said=DONE[Suggestion.Kind(suggestion.kind)])
            case "dismiss":
                dismiss_suggestion(suggestion, by=by, reason=reason)
                return Done(said=_DISMISSED, undo=str(suggestion.pk))
            case _:
                raise MemoryAppError("Choose one of the buttons.")

    def undo(self, user: Any, token: str, *, by: Actor) -> str:
        try:
            suggestion = self.find(user, UUID(token))
        except ValueError:
            suggestion = None
        if suggestion is None:
            raise MemoryAppError("This suggestion no longer exists.")
        reopen_suggestion(suggestion, by=by)
        return "Undone. It is waiting for a decision again."

    def find(self, user: Any, id: UUID) -> Suggestion | None:
        related = ("project", "heuristic__current_revision", "other__current_revision")
        return find_row(narrow_to_projects(Suggestion.objects.select_related(*related), user).filter(pk=id))


SUGGESTIONS = SuggestionItems()
