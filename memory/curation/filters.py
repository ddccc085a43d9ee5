"""Exact filters of the lists of heuristics and of decisions."""

from typing import ClassVar

from django.db.models import Exists, OuterRef, QuerySet
from django_filters import rest_framework as filters

from memory.api.filters import ExactText, Moment
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.redaction import redact_text
from memory.review.models import Review


class HeuristicFilter(filters.FilterSet):  # type: ignore[misc]
    source_task = ExactText(
        field_name="current_revision__source_task", help_text="The whole text of the task it was learnt from."
    )
    status = filters.ChoiceFilter(choices=Heuristic.Status.choices, help_text="Its status.")
    family = ExactText(field_name="current_revision__task_id", help_text="The task family.")
    task_id = ExactText(field_name="current_revision__task_id", help_text="An older name of `family`.")
    polarity = filters.ChoiceFilter(
        field_name="current_revision__polarity",
        choices=HeuristicRevision.Polarity.choices,
        help_text="What kind of lesson it is.",
    )
    served = filters.ChoiceFilter(  # a BooleanFilter passes over what it cannot read
        choices=[("true", "true"), ("false", "false")],
        method="filter_served",
        help_text="Whether agents are given a wording of it now.",
    )

    def filter_served(self, queryset: QuerySet[Heuristic], name: str, value: str) -> QuerySet[Heuristic]:
        wordings = HeuristicRevision.objects.served().filter(heuristic=OuterRef("pk"))
        return queryset.filter(Exists(wordings) if value == "true" else ~Exists(wordings))

    grouped = filters.ChoiceFilter(
        choices=[("true", "true"), ("false", "false")],
        method="filter_grouped",
        help_text="Whether another proposal with the same advice represents it in the queue.",
    )

    def filter_grouped(self, queryset: QuerySet[Heuristic], name: str, value: str) -> QuerySet[Heuristic]:
        return queryset.filter(leader__isnull=value == "false")

    leader_id = filters.UUIDFilter(help_text="The proposal that represents it in the queue.")
    external_id = ExactText(help_text="A client's own id of the lesson.")
    query = filters.CharFilter(method="filter_query", help_text="Words, all of which are in its newest wording.")

    def filter_query(self, queryset: QuerySet[Heuristic], name: str, value: str) -> QuerySet[Heuristic]:
        return queryset.with_words(redact_text(value))  # type: ignore[attr-defined,no-any-return]

    class Meta:
        model = Heuristic
        fields: ClassVar[list[str]] = []


class ReviewFilter(filters.FilterSet):  # type: ignore[misc]
    decision = filters.ChoiceFilter(choices=Review.Decision.choices, help_text="What was decided.")
    reviewer = filters.CharFilter(help_text="Who decided: user:…, key:… or policy:….", strip=False)
    heuristic = filters.UUIDFilter(field_name="subject_id", help_text="The heuristic that was decided on.")
    since = Moment(
        field_name="created_at",
        lookup_expr="gte",
        help_text="Decisions from then on, such as 2026-01-31T00:00:00Z.",
    )
    until = Moment(field_name="created_at", lookup_expr="lt", help_text="Decisions before then.")

    class Meta:
        model = Review
        fields: ClassVar[list[str]] = []
