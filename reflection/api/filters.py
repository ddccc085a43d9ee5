"""Exact filters of the list of reflections."""

from typing import ClassVar

from django_filters import rest_framework as filters

from reflection.reflectors.models import Reflection


class ReflectionFilter(filters.FilterSet):  # type: ignore[misc]
    trajectory = filters.UUIDFilter(field_name="trajectory_id", help_text="The id of the run it reads.")
    status = filters.ChoiceFilter(choices=Reflection.Status.choices, help_text="Where it stands.")

    class Meta:
        model = Reflection
        fields: ClassVar[list[str]] = []
