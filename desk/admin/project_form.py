"""The forms of a project and of its members: a line for a line, a number for a number, a choice for a choice."""

from typing import Any

from django import forms
from django.contrib.auth import get_user_model

from memory.projects.models import MAX_RECORD_SIZE, RECORD_SIZES, Project, ProjectMembership

SIZE = "most_"  # before the names of the sizes of the record


def _size_field(name: str, label: str) -> forms.IntegerField:
    return forms.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_RECORD_SIZE,
        label=label,
        help_text=f"At most this many lines; 0 leaves it out. Default: {RECORD_SIZES[name]}.",
    )


class ProjectForm(forms.ModelForm[Project]):
    """A project; the sizes of its record, which are stored together, are fields of their own."""

    most_task_rules = _size_field("task_rules", "Rules of the task family")
    most_general_rules = _size_field("general_rules", "General rules")
    most_mistakes = _size_field("mistakes", "Mistakes of earlier runs")
    most_mistake_cards = _size_field("mistake_cards", "Mistake cards")
    most_recent_outcomes = _size_field("recent_outcomes", "Recent outcomes")
    most_mean_score = _size_field("mean_score", "Mean score")

    # One field that has a label; the admin's own has two without.
    archived_at = forms.DateTimeField(
        required=False,
        label="Archived at (UTC)",
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
        help_text="From then on no decisions are taken in it. Lessons in use stay in use.",
    )

    class Meta:
        model = Project
        fields = (
            "name",
            "slug",
            "reflect_on_record",
            "daily_call_budget",
            "daily_token_budget",
            "daily_cost_budget_usd",
            "four_eyes",
            "mistake_card_policy",
            "run_retention_days",
            "conversation_retention_days",
            "passage_retention_days",
            "answer_retention_days",
            "mistake_card_retention_days",
            "record_budget_tokens",
            "archived_at",
        )
        labels = {
            "reflect_on_record": "Reflect on every recorded run",
            "daily_call_budget": "Model calls",
            "daily_token_budget": "Model tokens",
            "daily_cost_budget_usd": "Model cost, US dollars",
        }
        help_texts = dict.fromkeys(labels, "")
        labels |= {
            "run_retention_days": "Runs",
            "conversation_retention_days": "Conversations",
            "passage_retention_days": "Passages",
            "answer_retention_days": "Answers",
            "mistake_card_retention_days": "Mistake cards",
        }
        widgets = {"name": forms.TextInput(attrs={"class": "vTextField"})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in RECORD_SIZES:
            self.fields[f"{SIZE}{name}"].initial = self.instance.record_sizes.get(name)

    @property
    def changed_columns(self) -> list[str]:
        """Return the columns that were changed."""
        columns = ["record_sizes" if name.startswith(SIZE) else name for name in self.changed_data]
        return list(dict.fromkeys(columns))

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or self.cleaned_data
        sizes = {name: values.get(f"{SIZE}{name}") for name in RECORD_SIZES}
        self.instance.record_sizes = {name: size for name, size in sizes.items() if size is not None}
        return values


class MembershipForm(forms.ModelForm[ProjectMembership]):
    """Who works where, and as what."""

    user = forms.ModelChoiceField(
        queryset=get_user_model()._default_manager.filter(is_staff=True).order_by("username"),
        label="Person",
        empty_label="Choose a person",
        help_text="The group of the account says what a person may do at all; the membership says where.",
    )
    project = forms.ModelChoiceField(
        queryset=Project.objects.order_by("name", "slug"),
        required=False,
        empty_label="Every project, including future ones",
    )
    role = forms.ChoiceField(
        choices=[
            (ProjectMembership.Role.REVIEWER, "Reviewer: decides on lessons, cards, suggestions and agent calls"),
            (ProjectMembership.Role.OPERATOR, "Operator: manages keys, settings and reflections, withdraws lessons"),
            (ProjectMembership.Role.AUDITOR, "Auditor: only reads"),
        ],
        widget=forms.RadioSelect(attrs={"class": "radiolist"}),
        initial=ProjectMembership.Role.REVIEWER,
    )

    class Meta:
        model = ProjectMembership
        fields = ("user", "project", "role")
