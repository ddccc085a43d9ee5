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

    order = ("harm__difference", "pk")
    # A list of its own, not the review queue of lessons.
    queue = ItemKind.queue
    list_rows = ItemKind.list_rows

    def waiting(self) -> QuerySet[Heuristic]:
        return Heuristic.objects.filter(status=Heuristic.Status.APPROVED, harm__isnull=False)

    def write_row(self, item: Heuristic) -> ItemRow:
        revision = item.current_revision
        assert revision is not None
        assert item.harm is not None
        return ItemRow(
            kind=self.name,
            id=item.pk,
            title=revision.trigger,
            then=revision.guideline,
            why=describe_harm(item.harm),
            since=read_since(item.harm),
        )

    def draw_item(self, item: Heuristic, **options: Any) -> Pane:
        pane = super().draw_item(item, **options)
        harm = item.harm
        if harm is None:
            return pane
        buttons = {button.key: button for button in pane.actions}
        elsewhere = "This lesson is in use. Keep it with a, or retire it with t."
        company = f"{describe_company(harm['together'])} " if harm["together"] else ""
        note = (
            f"Runs that were given this lesson succeed less often than runs from which chance withheld it, compared "
            f"within task families: {describe_harm(harm)}, {harm['given']:,} runs against {harm['without']:,}. "
            f"{company}Keep the lesson or retire it."
        )
        return replace(
            pane,
            heading="Harmful?",
            note=pane.note or note,
            actions=[
                Button(key="a", decision="keep", label="Keep", disabled=buttons["t"].disabled),
                replace(buttons["e"], disabled=elsewhere),
                replace(buttons["r"], disabled=elsewhere),
                replace(buttons["d"], disabled=elsewhere),
                buttons["q"],
                replace(buttons["t"], tone="bad"),
            ],
        )


HARMFUL = HarmfulKind()
