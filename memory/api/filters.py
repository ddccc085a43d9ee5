"""Exact filters of lists. Whatever is not named here is refused by the view."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from django_filters import rest_framework as filters

from memory.heuristics.models import Heuristic, HeuristicRevision, Review
from memory.redaction import redact
from memory.runs.models import Trajectory


class ExactText(filters.CharFilter):  # type: ignore[misc]
    """Compares whole texts, as they were stored: with secrets and personal data taken out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"strip": False} | options)

    def filter(self, queryset: Any, value: str) -> Any:
        return super().filter(queryset, redact(value).value)


class Moment(filters.IsoDateTimeFilter):  # type: ignore[misc]
    """A time in any zone. PostgreSQL gets it in UTC: it refuses zones that Python reads, such as +23:00."""

    def filter(self, queryset: Any, value: datetime | None) -> Any:
        if value is not None:
            try:
                value = value.astimezone(UTC)
            except OverflowError:  # in the first or last hours of all years
                value = value.replace(tzinfo=UTC)
        return super().filter(queryset, value)


class KnownFilters(filters.FilterSet):  # type: ignore[misc]
    """A filter set that can name its query parameters."""

    @classmethod
    def query_params(cls) -> frozenset[str]:
        return frozenset(cls.base_filters)


class TrajectoryFilter(KnownFilters):
    task = ExactText(help_text="The whole task text.")
    task_id = ExactText(help_text="The task family.")
    outcome = filters.ChoiceFilter(choices=Trajectory.Outcome.choices, help_text="How the run ended.")
    agent = ExactText(help_text="The agent that ran.")
    external_id = ExactText(help_text="The agent's own id of the run.")

    class Meta:
        model = Trajectory
        fields: ClassVar[list[str]] = []


class HeuristicFilter(KnownFilters):
    source_task = ExactText(
        field_name="current_revision__source_task", help_text="The whole text of the task it was learnt from."
    )
    status = filters.ChoiceFilter(choices=Heuristic.Status.choices, help_text="Where it stands.")
    task_id = ExactText(field_name="current_revision__task_id", help_text="The task family.")
    polarity = filters.ChoiceFilter(
        field_name="current_revision__polarity",
        choices=HeuristicRevision.Polarity.choices,
        help_text="What kind of lesson it is.",
    )

    class Meta:
        model = Heuristic
        fields: ClassVar[list[str]] = []


class ReviewFilter(KnownFilters):
    decision = filters.ChoiceFilter(choices=Review.Decision.choices, help_text="What was decided.")
    reviewer = filters.CharFilter(help_text="Who decided: user:…, key:… or policy:….", strip=False)
    heuristic = filters.UUIDFilter(help_text="The heuristic that was decided on.")
    since = Moment(
        field_name="created_at",
        lookup_expr="gte",
        help_text="Decisions from then on, such as 2026-01-31T00:00:00Z.",
    )
    until = Moment(field_name="created_at", lookup_expr="lt", help_text="Decisions before then.")

    class Meta:
        model = Review
        fields: ClassVar[list[str]] = []
