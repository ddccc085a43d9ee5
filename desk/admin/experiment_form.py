"""The form with which a person starts an experiment. Its units are those people speak in: percent, points, hours."""

from typing import Any

from django import forms

from evaluation.experiments.lifecycle import start_experiment
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import LONGEST_LOOK_BACK, MOST_UNITS, STEPS, DecisionRule, ExperimentPlan, Method
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import get_release

_DEFAULT = ExperimentPlan()


class ExperimentForm(forms.Form):
    """A plan, which cannot be changed once the experiment runs."""

    release = forms.CharField(
        required=False,
        max_length=64,
        help_text="The number or hash of the release to try. Empty: compare the lessons with the hold-out.",
    )
    max_units = forms.IntegerField(
        min_value=1,
        max_value=MOST_UNITS,
        initial=_DEFAULT.max_units,
        label="Most units",
        help_text="With a known outcome, both arms together, in the last step of the canary. Then it ends.",
    )
    tau_points = forms.FloatField(
        min_value=0.1,
        max_value=99,
        initial=100 * _DEFAULT.tau,
        label="Effect hoped for, points",
        help_text="The size for which the interval narrows fastest.",
    )
    method = forms.ChoiceField(choices=Method.choices, initial=_DEFAULT.method)
    margin_points = forms.FloatField(
        min_value=0,
        max_value=99,
        initial=0,
        label="Margin, points",
        help_text="0: it has to be better. Above 0: it may be worse by less than this.",
    )
    hours = forms.FloatField(
        min_value=0.1,
        max_value=LONGEST_LOOK_BACK // 3600,
        initial=_DEFAULT.look_back_seconds / 3600,
        label="Outcomes wait, hours",
        help_text="Later ones do not count.",
    )
    by_hand = forms.BooleanField(required=False, label="People set the share of the canary (no steps)")
    promotes = forms.ChoiceField(
        choices=Experiment.Promotes.choices, initial=Experiment.Promotes.PEOPLE, label="If it helps"
    )

    def start(self, project: Project, *, by: Actor) -> Experiment:
        """Start the experiment.

        Raises:
            EvaluationError, MemoryAppError: see `start_experiment`.
        """
        data: dict[str, Any] = self.cleaned_data
        release = get_release(project, data["release"]) if data["release"] else None
        plan = ExperimentPlan(
            method=data["method"],
            rule=DecisionRule.NOT_WORSE if data["margin_points"] else DecisionRule.BETTER,
            margin=data["margin_points"] / 100,
            tau=data["tau_points"] / 100,
            max_units=data["max_units"],
            look_back_seconds=round(data["hours"] * 3600),
            steps=() if data["by_hand"] or release is None else STEPS,
        )
        return start_experiment(project, plan=plan, by=by, release=release, promotes=data["promotes"])
