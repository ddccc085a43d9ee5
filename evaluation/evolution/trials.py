"""The trial of a change is an experiment. Where the policy decides about an agent's changes, the experiment does: it
promotes what is better, and rolls back what is worse or brings nothing. `aftercare` watches what was promoted.
"""

from evaluation.errors import EvaluationError
from evaluation.experiments.analysis import ArmVerdict
from evaluation.experiments.lifecycle import start_experiment
from evaluation.experiments.looks import take_look
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import DecisionRule, ExperimentPlan, RolloutStep
from memory.errors import NotDeployable
from memory.events import EventKind, ProjectEvent
from memory.projects.actors import Actor
from runtime.changes.ladder import roll_back_change
from runtime.changes.policy import POLICY, last_shadow
from runtime.models.agents import ChangesBy
from runtime.models.changes import Change

STEPS = (RolloutStep(share=100, units=50), RolloutStep(share=500, units=100))  # of a trial that no person watches
MARGIN = 0.05  # of success, for a change that saved steps in shadow
UNITS = {DecisionRule.BETTER: 2_400, DecisionRule.NOT_WORSE: 5_000}
_WITHOUT_BENEFIT = (ArmVerdict.NO_BENEFIT, ArmVerdict.INVALID)


def start_experiment_of(change: Change, by: Actor) -> None:
    """Start the experiment of a change whose trial begins, unless it has one. Runs in the transaction of the trial.

    Raises:
        NotDeployable: no experiment could be started.
    """
    project, decides = change.agent.project, change.agent.changes_by == ChangesBy.POLICY
    running = Experiment.objects.running().filter(project=project, compared=Experiment.Compared.CANARY)
    for experiment in running.exclude(treated_release=change.release):
        take_look(experiment.pk)  # its candidate is gone, which ends it
    if running.filter(treated_release=change.release).exists():
        return
    promotes = Experiment.Promotes.POLICY if decides else Experiment.Promotes.PEOPLE
    try:
        start_experiment(project, plan=plan_trial(change), by=by, release=change.release, promotes=promotes)
    except EvaluationError as refusal:
        raise NotDeployable(f"The trial would have no experiment that watches it. {refusal}") from refusal


def plan_trial(change: Change) -> ExperimentPlan:
    """Return the plan of a trial: what saved steps in shadow must not be worse, all else has to be better."""
    rows = last_shadow(change)
    saves = sum(row.steps_after for row in rows) < sum(row.steps_before for row in rows)
    rule = DecisionRule.NOT_WORSE if saves else DecisionRule.BETTER
    return ExperimentPlan(
        rule=rule,
        margin=MARGIN if saves else 0.0,
        max_units=UNITS[rule],
        steps=STEPS if change.agent.changes_by == ChangesBy.POLICY else (),
    )


def follow_experiment(event: ProjectEvent) -> None:
    """End the trial of a change that brought nothing, where the policy decides. Runs in the experiment's transaction.

    What is better or worse the experiment itself promotes or rolls back.
    """
    if event.kind != EventKind.EXPERIMENT_ENDED or event.details.get("conclusion") not in _WITHOUT_BENEFIT:
        return
    experiment = Experiment.objects.get(project=event.project_id, number=event.details["experiment"])
    if experiment.promotes != Experiment.Promotes.POLICY:
        return
    changes = Change.objects.select_related("agent__project")
    on_trial = changes.filter(release=experiment.treated_release, rung=Change.Rung.CANARY).first()
    if on_trial is not None:
        roll_back_change(on_trial, by=POLICY, reason=f"{experiment}: {experiment.reason}")
