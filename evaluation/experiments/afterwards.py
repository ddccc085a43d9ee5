"""How a release does after its promotion, against its own trial: effects fade, and trials end when chance was kind."""

from dataclasses import dataclass

from evaluation.experiments.analysis import ArmVerdict
from evaluation.experiments.exposures import TRUSTED
from evaluation.experiments.models import Experiment, Look
from evaluation.sequential import (
    FIRST_LOOK,
    Difference,
    Interval,
    Sample,
    confidence_sequence,
    find_difference,
    sample_shares,
)
from memory.retrieval.assignment import ServedArm
from memory.runs.models import Trajectory

MOST_RUNS = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Since:
    """Success of the units that were given a release since its trial ended, and in its trial."""

    now: Sample
    then: Sample

    @property
    def difference(self) -> Difference | None:
        return find_difference(self.now, self.then)

    def in_words(self) -> str:
        return (
            f"Since it was promoted, {self.now.mean:.0%} of {self.now.n:,} units succeeded; in its trial "
            f"{self.then.mean:.0%} of {self.then.n:,} did."
        )


def find_promoted(experiment: Experiment) -> bool:
    """Tell whether what an experiment found better is what all agents get now."""
    return (
        experiment.conclusion == ArmVerdict.BETTER
        and experiment.compared == Experiment.Compared.CANARY
        and experiment.deployment.stable_id == experiment.treated_release_id
    )


def compare_with_trial(experiment: Experiment, look: Look, *, newest: bool) -> Since:
    """Compare the first run of each unit since the end of a trial with those of its treated arm. One query.

    There is no control group any more, so a world that became harder looks the same as an effect that wore off.

    Args:
        look: the last of the experiment.
        newest: of the runs since then count the newest, where there are very many; otherwise the first.
    """
    runs = Trajectory.objects.filter(
        project=experiment.project_id,
        retrieval__release=experiment.treated_release_id,
        retrieval__arm=ServedArm.STABLE,
        retrieval__created_at__gt=experiment.ended_at,
        outcome__in=[Trajectory.Outcome.SUCCESS, Trajectory.Outcome.FAILURE],
        outcome_source__in=TRUSTED,
    ).values_list("retrieval__unit", "outcome")
    order = ("retrieval__created_at", "retrieval_id", "id")
    if newest:
        # Turned round, so that the first run of each unit still comes first.
        chosen = list(runs.order_by(*(f"-{name}" for name in order))[:MOST_RUNS])[::-1]
    else:
        chosen = list(runs.order_by(*order)[:MOST_RUNS])
    first: dict[str, float] = {}
    for unit, outcome in chosen:
        # The first run of each unit counts, as in the trial.
        first.setdefault(unit, float(outcome == Trajectory.Outcome.SUCCESS))
    # The look keeps the mean alone; for shares, that and the number of units give back the values.
    succeeded = round((look.treated_mean or 0.0) * look.treated_units)
    then = [1.0] * succeeded + [0.0] * (look.treated_units - succeeded)
    return Since(now=sample_shares(list(first.values())), then=sample_shares(then))


def find_fading(experiment: Experiment, since: Since) -> Interval | None:
    """Return how much the success of a release fell after its trial, where that is more than chance explains."""
    difference = since.difference
    if difference is None or min(since.now.n, since.then.n) < FIRST_LOOK:
        return None
    interval = confidence_sequence(difference, tau=experiment.tau, alpha=experiment.alpha)
    return interval if interval.high < 0 else None
