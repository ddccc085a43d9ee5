"""What a person chooses to start an evaluation; the same as an API client sends."""

from typing import Any

from django import forms

from evaluation.suites.registry import get_suite
from memory.projects.models import Project

_SUITES = ("toolchoice", "replay", "retrieval", "reflection", "yours")


def _list_suites() -> list[tuple[str, str]]:
    return [(name, f"{name} – {get_suite(name).about.title}") for name in _SUITES]


class EvaluationForm(forms.Form):
    """A project, suites, and how much of them."""

    project = forms.ModelChoiceField(queryset=Project.objects.none(), empty_label=None)
    suites = forms.MultipleChoiceField(
        choices=_list_suites,
        initial=["toolchoice", "replay"],
        widget=forms.CheckboxSelectMultiple,
        label="What to measure",
    )
    limit = forms.IntegerField(min_value=1, max_value=2000, initial=120, label="New tasks, at most")
    experience = forms.IntegerField(
        min_value=1, max_value=800, initial=100, label="Earlier tasks to learn from, at most"
    )
    k = forms.IntegerField(min_value=1, max_value=50, initial=5, label="Lessons per task")
    seeds = forms.IntegerField(
        min_value=1,
        max_value=5,
        initial=1,
        label="Repetitions",
        help_text="More repetitions make the intervals narrower.",
    )

    def __init__(self, *args: Any, projects: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["project"]
        field.queryset = projects

    def options(self) -> dict[str, Any]:
        """Return the options as an evaluation stores them."""
        return {**self.cleaned_data, "project": self.cleaned_data["project"].slug}
