"""Take back what the policy promoted and what since fails more often than in its trial.

There is no control group any more, so the figure to keep up with is the trial's own. A world that became harder looks
the same as a change that wore off; in both cases what was served before is served again, which people can undo.
"""

import structlog
from django.db.models import F

from evaluation.experiments.afterwards import compare_with_trial
from evaluation.experiments.analysis import ArmVerdict
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import ExperimentPlan, Guarded
from evaluation.sequential import FIRST_GUARD, Difference, guardrail_e_value
from memory.errors import MemoryAppError
from runtime.changes.ladder import roll_back_change
from runtime.changes.policy import POLICY
from runtime.models.agents import ChangesBy
from runtime.models.changes import Change

log = structlog.get_logger(__name__)

MARGIN = 0.05  # of success, that a change of the traffic may cost
_GUARD = next(each for each in ExperimentPlan().guardrails if each.metric == Guarded.SUCCESS)


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
        said = find_harm(change)
        if not said:
            continue
        try:
            roll_back_change(change, by=POLICY, reason=said)
            taken += 1
        except MemoryAppError as refusal:  # the deployment was changed meanwhile
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
    harm = Difference(estimate=-difference.estimate, variance=difference.variance)
    is_worse = guardrail_e_value(harm, tau=_GUARD.tau, margin=MARGIN) >= 1 / _GUARD.alpha
    return since.in_words() if is_worse else ""
