"""Exact filters of the list of runs."""

from typing import ClassVar

from django_filters import rest_framework as filters

from memory.api.filters import ExactText
from memory.runs.models import Trajectory


class TrajectoryFilter(filters.FilterSet):  # type: ignore[misc]
    task = ExactText(help_text="The whole task text.")
    task_id = ExactText(help_text="The task family.")
    outcome = filters.ChoiceFilter(choices=Trajectory.Outcome.choices, help_text="How the run ended.")
    agent = ExactText(help_text="The agent that ran.")
    external_id = ExactText(help_text="The agent's own id of the run.")

    class Meta:
        model = Trajectory
        fields: ClassVar[list[str]] = []
