"""Lessons in use that seem to do harm, in the inbox: keep or retire."""

from dataclasses import replace
from typing import Any

from django.db.models import DateTimeField, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from desk.inbox.kinds import Button, ItemKind, ItemRow, Pane
from desk.inbox.lessons import LessonKind
from memory.effects.harm import describe_company, describe_harm, read_since
from memory.heuristics.models import Heuristic


class HarmfulKind(LessonKind):
    """A lesson in use with which runs succeed less often than without, the worst first."""

    name = "harmful"
    label = "Harmful?"
    subject = "lesson"
    since = Cast(KeyTextTransform("since", "harm"), DateTimeField())

    queue = ItemKind.queue  # a list of its own, not the review queue of lessons

    def waiting(self) -> QuerySet[Heuristic]:
        return Heuristic.objects.filter(status=Heuristic.Status.APPROVED, harm__isnull=False)

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        found = self.queue(user, query).select_related("current_revision").order_by("harm__difference", "pk")
        return [self._write_harm(heuristic) for heuristic in found[:limit]]

    def _write_harm(self, heuristic: Heuristic) -> ItemRow:
        revision = heuristic.current_revision
        assert revision is not None
        assert heuristic.harm is not None
        return ItemRow(
            kind=self.name,
            id=heuristic.pk,
            title=revision.trigger,
            then=revision.guideline,
            why=describe_harm(heuristic.harm),
            since=read_since(heuristic.harm),
        )

    def draw_lesson(self, heuristic: Heuristic, **options: Any) -> Pane:
        pane = super().draw_lesson(heuristic, **options)
        harm = heuristic.harm
        if harm is None:
            return pane
        taken = {action.key: action for action in pane.actions}
        no = taken["t"].disabled
        elsewhere = "This lesson is in use. Keep it with a, or retire it with t."
        said = (
            f"Runs that were given this lesson succeed less often than runs from which chance withheld it, compared "
            f"within task families: {describe_harm(harm)}, {harm['given']:,} runs against {harm['without']:,}. "
            f"{describe_company(harm['together']) + ' ' if harm['together'] else ''}Keep the lesson or retire it."
        )
        return replace(
            pane,
            heading="Harmful?",
            note=pane.note or said,
            actions=[
                Button(key="a", decision="keep", label="Keep", disabled=no),
                replace(taken["e"], disabled=elsewhere),
                replace(taken["r"], disabled=elsewhere),
                replace(taken["d"], disabled=elsewhere),
                taken["q"],
                replace(taken["t"], tone="bad"),
            ],
        )


HARMFUL = HarmfulKind()
