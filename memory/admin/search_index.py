"""How well the searches of large projects find what a comparison of everything would find."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince

from memory.admin.panels import Figure
from memory.admin.read_only import ReadOnlyAdmin
from memory.index.tuning import LEAST_RECALL, WANTED_RECALL
from memory.projects.access import narrow_to_projects
from memory.retrieval.models import SearchIndex

_LABEL = "of the likest lessons found"


@admin.register(SearchIndex)
class SearchIndexAdmin(ReadOnlyAdmin[SearchIndex]):
    list_display = ["project", "found", "found_for_the_worst", "recall_tasks", "measured_at", "texts", "breadth"]
    list_filter = ["project"]
    list_select_related = ["project"]

    @admin.display(description="found in the mean", ordering="recall_mean")
    def found(self, index: SearchIndex) -> str:
        return _percent(index.recall_mean)

    @admin.display(description="found for the worst task", ordering="recall_least")
    def found_for_the_worst(self, index: SearchIndex) -> str:
        return _percent(index.recall_least)

    def has_view_permission(self, request: HttpRequest, obj: SearchIndex | None = None) -> bool:
        """Whoever may read answers may read how well they were searched for."""
        return request.user.has_perm("memory.view_retrieval")


def judge_searches(user: Any) -> Iterable[Figure]:
    """Say what the searches of a person's projects find: of the project that is worst off. One query."""
    indexes = list(narrow_to_projects(SearchIndex.objects.select_related("project"), user))
    link = reverse("admin:memory_searchindex_changelist")
    measured = [index for index in indexes if index.recall_mean is not None and index.recall_least is not None]
    if not measured:
        note = "not measured yet" if indexes else "each task is compared with every lesson"
        yield Figure(label=_LABEL, value="–" if indexes else "100 %", link=link, note=note)
        return
    worst = min(measured, key=lambda index: (index.recall_mean or 0.0, index.recall_least or 0.0))
    mean, least = worst.recall_mean or 0.0, worst.recall_least or 0.0
    age = timesince(worst.measured_at or timezone.now(), depth=1)
    where = f"{worst.project}, " if len(indexes) > 1 else ""
    yield Figure(
        label=_LABEL,
        value=_percent(mean),
        link=link,
        note=f"{where}{_percent(least)} for the worst of {worst.recall_tasks} tasks, {age} ago",
        alarming=mean < WANTED_RECALL or least < LEAST_RECALL,
    )


def _percent(share: float | None) -> str:
    return f"{100 * share:.1f} %" if share is not None else "–"
