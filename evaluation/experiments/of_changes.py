"""The trial of a change is an experiment, and what was promoted is watched afterwards.

Where the policy decides about an agent's changes, the experiment does: it promotes what is better, and rolls back what
is worse or brings nothing. After a promotion there is no control group any more, so the figure to keep up with is the
trial's own. A world that became harder looks the same as a change that wore off; in both cases what was served before
is served again, which people can undo.
"""

import structlog
from django.db.models import F

from evaluation.errors import EvaluationError
from evaluation.experiments.afterwards import compare_with_trial
from evaluation.experiments.analysis import ArmVerdict
from evaluation.experiments.lifecycle import start_experiment
from evaluation.experiments.looks import take_look
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import DecisionRule, ExperimentPlan, Guarded, RolloutStep
from evaluation.sequential import FIRST_GUARD, Difference, guardrail_e_value
from memory.errors import MemoryAppError, NotDeployable
from memory.events import EventKind, ProjectEvent
from memory.projects.actors import Actor
from runtime.changes.ladder import roll_back_change
from runtime.changes.policy import POLICY, last_shadow
from runtime.models.agents import ChangesBy
from runtime.models.changes import Change

log = structlog.get_logger(__name__)

STEPS = (RolloutStep(share=100, units=50), RolloutStep(share=500, units=100))  # of a trial that no person watches
MARGIN = 0.05  # of success: for a change that saved steps in shadow, and for a change of the traffic afterwards
UNITS = {DecisionRule.BETTER: 2_400, DecisionRule.NOT_WORSE: 5_000}
_WITHOUT_BENEFIT = (ArmVerdict.NO_BENEFIT, ArmVerdict.INVALID)
_GUARD = next(guardrail for guardrail in ExperimentPlan().guardrails if guardrail.metric == Guarded.SUCCESS)


def start_experiment_of(change: Change, by: Actor) -> None:
    """Start the experiment of a change whose trial begins, unless it has one. Runs in the transaction of the trial.

    Raises:
        NotDeployable: no experiment could be started.
    """
    project, decides = change.agent.project, change.agent.changes_by == ChangesBy.POLICY
    running = Experiment.objects.running().filter(project=project, compared=Experiment.Compared.CANARY)
    for experiment in running.exclude(treated_release=change.release):
        # Its candidate is gone, so this look ends it.
        take_look(experiment.pk)
    if running.filter(treated_release=change.release).exists():
        return
    promotes = Experiment.Promotes.POLICY if decides else Experiment.Promotes.PEOPLE
    try:
        start_experiment(project, plan=plan_trial(change), by=by, release=change.release, promotes=promotes)
    except EvaluationError as refusal:
        raise NotDeployable(f"The trial would have no experiment that watches it. {refusal}") from refusal


def plan_trial(change: Change) -> ExperimentPlan:
    """Return the plan of a trial: what saved steps in shadow must not be worse, all else has to be better."""
    figures = [row.figures for row in last_shadow(change)]
    saves = sum(figure["steps_after"] for figure in figures) < sum(part["steps_before"] for part in figures)
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


def take_back_worse() -> int:
    """Roll back the stable changes that fail more often than in the trial which promoted them; return how many."""
    deployed = Change.objects.filter(
        rung=Change.Rung.STABLE,
        agent__changes_by=ChangesBy.POLICY,
        release=F("project__deployment__stable"),
        project__deployment__candidate=None,
    )
    taken = 0
    for change in deployed.select_related("agent__project"):
        reason = find_harm(change)
        if not reason:
            continue
        try:
            roll_back_change(change, by=POLICY, reason=reason)
            taken += 1
        except MemoryAppError as refusal:
            # The deployment was changed meanwhile.
            log.info("change_not_taken_back", number=change.number, reason=type(refusal).__name__)
    return taken


def find_harm(change: Change) -> str:
    """Return how much more often a change fails than in its trial, as a sentence; nothing where chance explains it."""
    trial = Experiment.objects.filter(
        treated_release=change.release, conclusion=ArmVerdict.BETTER, promotes=Experiment.Promotes.POLICY
    ).last()
    look = trial.looks.last() if trial is not None else None
    if trial is None or look is None or look.treated_mean is None:
        return ""
    # The first runs: later ones say more about the world than about the change.
    since = compare_with_trial(trial, look, newest=False)
    difference = since.difference
    if difference is None or min(since.now.n, since.then.n) < FIRST_GUARD:
        return ""
    # Guardrails test figures that rise with the harm, and success falls with it.
    harm = Difference(estimate=-difference.estimate, variance=difference.variance)
    is_worse = guardrail_e_value(harm, tau=_GUARD.tau, margin=MARGIN) >= 1 / _GUARD.alpha
    return since.in_words() if is_worse else ""
