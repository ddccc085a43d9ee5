"""Experiments and uplift as clients send and read them. Shares of units are in percent, rates between 0 and 1."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from evaluation.experiments.analysis import ArmVerdict, State
from evaluation.experiments.models import Experiment, Look
from evaluation.experiments.plan import (
    GUARDRAILS,
    LONGEST_LOOK_BACK,
    MOST_UNITS,
    STEPS,
    DecisionRule,
    ExperimentPlan,
    Guarded,
    Guardrail,
    Method,
    Metric,
    RolloutStep,
    UnitRule,
)
from evaluation.experiments.uplift import Uplift, UpliftReport
from evaluation.reports.experiments import list_alarms, list_unknowns, list_warnings, write_sentence
from evaluation.sequential import Interval
from memory.api.input import WHOLE, Input, OneOf, ReleaseName, Share
from memory.effects.comparison import LessonEffect
from memory.limits import MAX_OUTCOME_DAYS, MAX_REASON_CHARS

_DEFAULT = ExperimentPlan()

Rate = Annotated[float, Field(gt=0, lt=1, json_schema_extra={"format": "double"})]
Number = Annotated[float, Field(json_schema_extra={"format": "double"})]
Count = Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE]
Figure = Annotated[float | None, Field(description="Null while too little is known.")]


class GuardrailInput(Input):
    """A one-sided test for harm. Of cost and latency, `tau` and `margin` are differences of natural logarithms."""

    metric: Annotated[str, OneOf(Guarded)]
    alpha: Rate = 0.01
    tau: Rate = 0.15
    margin: Annotated[Share, Field(description="How much worse does not count as harm.")] = 0.0


class CanaryStepInput(Input):
    """A share of a canary, and how many units with it are needed before the next."""

    percent: Annotated[float, Field(ge=0.1, le=100, json_schema_extra={"format": "double"})]
    units: Count


class ExperimentInput(Input):
    """The plan of an experiment. It cannot be changed once it runs. All members are optional."""

    release: Annotated[
        str,
        ReleaseName(),
        Field(
            description="The number or hash of the release to try against the stable one. Empty compares lessons with "
            "none, in the hold-out.",
        ),
    ] = ""
    metric: Annotated[str, OneOf(Metric)] = _DEFAULT.metric
    method: Annotated[str, OneOf(Method)] = _DEFAULT.method
    rule: Annotated[str, OneOf(DecisionRule)] = _DEFAULT.rule
    unit_rule: Annotated[str, OneOf(UnitRule)] = _DEFAULT.unit_rule
    alpha: Annotated[Rate, Field(description="Share of false verdicts over all looks, two-sided.")] = _DEFAULT.alpha
    tau: Annotated[Rate, Field(description="The size of the effect you hope for.")] = _DEFAULT.tau
    margin: Annotated[Share, Field(description="How much worse still counts as `not_worse`.")] = _DEFAULT.margin
    max_units: Annotated[
        Count,
        Field(description="Units with a known outcome at which it ends. With `steps`, only those of the last count."),
    ] = _DEFAULT.max_units
    look_back_seconds: Annotated[
        int, Field(ge=1, le=LONGEST_LOOK_BACK, description="How long an outcome may take to count."), WHOLE
    ] = _DEFAULT.look_back_seconds
    use_past: Annotated[
        bool, Field(description="Remove what the families' success before the experiment explains (CUPED).")
    ] = False
    only_differing: Annotated[
        bool,
        Field(
            description="Let the verdict count only units that the two releases answer differently; needs a "
            "`shadow_percent` in the deployment. Guardrails and shares count all units."
        ),
    ] = False
    guardrails: Annotated[
        list[GuardrailInput] | None, Field(max_length=5, description="Default: all five, `success` without a margin.")
    ] = None
    steps: Annotated[
        list[CanaryStepInput] | None,
        Field(max_length=10, description="Default: 1%, 10%, 50%. An empty list leaves the share to people."),
    ] = None
    promotes: Annotated[str, OneOf(Experiment.Promotes)] = Experiment.Promotes.PEOPLE

    def as_plan(self) -> ExperimentPlan:
        """Return the plan with its defaults filled in."""
        steps = (STEPS if self.release else ()) if self.steps is None else tuple(map(_read_step, self.steps))
        given = self.guardrails
        guardrails = GUARDRAILS if given is None else tuple(Guardrail(**guardrail.model_dump()) for guardrail in given)
        left_out = {"release", "promotes", "guardrails", "steps"}
        return ExperimentPlan(guardrails=guardrails, steps=steps, **self.model_dump(exclude=left_out))


class StopInput(Input):
    """Why an experiment ends early."""

    reason: Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Kept with the experiment.")] = ""


class UpliftQuery(Input):
    """The period to measure."""

    days: Annotated[int, Field(ge=1, le=MAX_OUTCOME_DAYS, description="Only answers of the last N days.")] = 90


class GuardrailFigures(BaseModel):
    """One figure in the two arms; `fired` when `e_value` reaches 1/α."""

    units: dict[str, int]
    difference: Annotated[float | None, Field(description="Harm of the treated arm; above 0 is worse.")]
    e_value: float
    fired: bool


class GuardrailAnswer(GuardrailFigures):
    """What a guardrail found in the runs whose outcome counts. Only they can fire, and only if the arms compare."""

    comparable: Annotated[
        bool, Field(description="False where it would have fired, but one arm reports the figure more often.")
    ] = True
    untrusted: Annotated[
        GuardrailFigures | None,
        Field(description="The same with all runs, no matter who reported how they ended. It rolls nothing back."),
    ] = None


class FamilyAnswer(BaseModel):
    """The two arms in one task family; units are those with an outcome that counts."""

    family: str
    control: int
    treated: int
    estimate: Figure
    low: Figure
    high: Figure


class FamiliesAnswer(BaseModel):
    """The arms in the largest task families."""

    rows: list[FamilyAnswer] = []
    e_value: Annotated[
        float, Field(description="Evidence that the effect differs between them; an alarm from 20 on.")
    ] = 1.0


class LookAnswer(BaseModel):
    """What was found at one look. Values are shares of success, or mean scores."""

    number: int
    taken_at: datetime
    treated_percent: Annotated[float, Field(description="Share of the treated arm at the time.")]
    control_units: int
    treated_units: int
    control_mean: Figure
    treated_mean: Figure
    estimate: Annotated[float | None, Field(description="Treated minus control, compared within each share.")]
    low: Annotated[
        float | None,
        Field(
            description="The interval holds at every look together, whether units without an outcome are left out, or "
            "counted as failures or as successes."
        ),
    ]
    high: float | None
    e_value: Annotated[float, Field(description="Evidence against no difference; it decides from 1/α on.")]
    ratio_e_value: Annotated[
        float, Field(description="Evidence against the planned shares; from 1,000 on, nothing else counts.")
    ]
    missing_e_value: Annotated[
        float,
        Field(
            description="Evidence that the arms differ in missing outcomes, those that may still come included. From "
            "100 on, nothing is promoted or rolled back."
        ),
    ]
    guardrails: dict[str, GuardrailAnswer]
    outcomes: Annotated[
        dict[str, dict[str, int]],
        Field(description=f"Units of each arm by what is known of their outcome: {', '.join(State.values)}."),
    ]
    families: FamiliesAnswer
    verdict: Annotated[str, OneOf(ArmVerdict)]
    reason: str


class ExperimentAnswer(BaseModel):
    """An experiment: its plan, how it stands, and how it ended."""

    number: int
    sentence: Annotated[str, Field(description="What it has found so far.")]
    status: Annotated[str, OneOf(Experiment.Status)]
    compared: Annotated[str, OneOf(Experiment.Compared)]
    treated_release: int | None
    control_release: int | None
    metric: Annotated[str, OneOf(Metric)]
    method: Annotated[str, OneOf(Method)]
    rule: Annotated[str, OneOf(DecisionRule)]
    unit_rule: Annotated[str, OneOf(UnitRule)]
    alpha: float
    tau: float
    margin: float
    max_units: int
    look_back_seconds: int
    use_past: bool
    only_differing: bool
    guardrails: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    promotes: Annotated[str, OneOf(Experiment.Promotes)]
    conclusion: Annotated[str, Field(description="The verdict that ended it; empty if something else did.")]
    reason: str
    started_by: str
    started_at: datetime
    ended_by: str
    ended_at: datetime | None
    last_look: LookAnswer | None


class ExperimentPage(BaseModel):
    """Experiments, the newest first."""

    results: list[ExperimentAnswer]
    pagination: dict[str, int]


class ExperimentDetail(ExperimentAnswer):
    """An experiment with its newest looks, oldest first, and what it cannot tell yet."""

    alarms: list[str]
    cannot_tell: list[str]
    looks: Annotated[list[LookAnswer], Field(description="The newest, at most 500.")]


class UpliftAnswer(BaseModel):
    """Success of the units that were given lessons minus that of the hold-out. Units with a known outcome count.

    There is no interval while they are too few, or while one side lacks more outcomes than the other by more than
    chance explains: nothing can be said then.
    """

    guided: int
    held_out: int
    estimate: Figure
    low: Figure
    high: Figure


class ReleaseUplift(UpliftAnswer):
    release: int


class FamilyUplift(UpliftAnswer):
    task_id: str


class LessonEffectAnswer(BaseModel):
    """Success of the runs that were given a lesson minus that of runs like them without it, within strata.

    The three figures are null while they cannot be told: nothing can be compared, the lesson cannot be told apart from
    others, or it applied to no run. The interval is null with fewer than 30 runs to compare on either side.
    """

    heuristic: UUID
    runs: Annotated[int, Field(description="Runs that were given it and ended with a trusted outcome.")]
    compared: Annotated[int, Field(description="Those of them that have a counterpart without the lesson.")]
    without: Annotated[int, Field(description="The counterparts.")]
    estimate: Figure
    low: Figure
    high: Figure
    observational: Annotated[
        bool,
        Field(
            description="False where a hold-out decided by chance which units were given it. True where runs are "
            "compared with others of the same task: an association, which may have another cause."
        ),
    ]
    together_with: Annotated[
        list[UUID],
        Field(description="Lessons that nearly the same runs were given, and from which it cannot be told."),
    ]
    never_applied: Annotated[bool, Field(description="It applied to none of the runs whose use of it is known.")]


class UpliftReportAnswer(BaseModel):
    """Whether lessons help."""

    days: int
    whole: UpliftAnswer
    by_release: list[ReleaseUplift]
    by_family: list[FamilyUplift]
    lessons: list[LessonEffectAnswer]


MOST_LOOKS = 500
MOST_LESSONS = 50
_LOOK = [name for name in LookAnswer.model_fields if name != "treated_percent"]
_COPIED = [
    name
    for name in ExperimentAnswer.model_fields
    if name not in ("sentence", "treated_release", "control_release", "steps", "last_look")
]


def describe_experiment(experiment: Experiment, last: Look | None) -> dict[str, Any]:
    """Return an experiment as clients read it, with its last look."""
    return {
        **{name: getattr(experiment, name) for name in _COPIED},
        "sentence": write_sentence(experiment, last),
        "treated_release": experiment.treated_release.number if experiment.treated_release else None,
        "control_release": experiment.control_release.number if experiment.control_release else None,
        "steps": [{"percent": step["share"] / 10, "units": step["units"]} for step in experiment.steps],
        "last_look": describe_look(last) if last else None,
    }


def describe_in_full(experiment: Experiment) -> dict[str, Any]:
    """Return an experiment with its looks."""
    # The newest ones, turned round to be read from the oldest on.
    looks = list(experiment.looks.order_by("-number")[:MOST_LOOKS])[::-1]
    last = looks[-1] if looks else None
    return describe_experiment(experiment, last) | {
        "alarms": [*(list_alarms(last) if last else ()), *list_warnings(experiment)],
        "cannot_tell": list_unknowns(experiment, last),
        "looks": [describe_look(look) for look in looks],
    }


def describe_look(look: Look) -> dict[str, Any]:
    """Return a look as clients read it."""
    return {name: getattr(look, name) for name in _LOOK} | {"treated_percent": look.share / 10}


def describe_uplift(report: UpliftReport, lessons: Iterable[LessonEffect], *, days: int) -> dict[str, Any]:
    """Return what lessons do as clients read it, the lessons with the most runs first."""
    most_first = sorted(lessons, key=lambda effect: (-effect.given.known, effect.heuristic_id))
    return {
        "days": days,
        "whole": _describe_uplift(report.whole),
        "by_release": [
            {"release": number} | _describe_uplift(estimate) for number, estimate in report.by_release.items()
        ],
        "by_family": [{"task_id": name} | _describe_uplift(estimate) for name, estimate in report.by_family.items()],
        "lessons": [_describe_effect(effect) for effect in most_first[:MOST_LESSONS]],
    }


def _describe_uplift(uplift: Uplift) -> dict[str, Any]:
    figures = {"guided": uplift.guided, "held_out": uplift.held_out, "estimate": uplift.estimate}
    return figures | _describe_interval(uplift.interval)


def _describe_effect(effect: LessonEffect) -> dict[str, Any]:
    is_told = effect.is_told_apart
    return {
        "heuristic": effect.heuristic_id,
        "runs": effect.given.known,
        "compared": effect.compared.strata.given,
        "without": effect.compared.strata.without,
        "estimate": effect.difference if is_told else None,
        **_describe_interval(effect.interval if is_told else None),
        "observational": not effect.is_by_chance,
        "together_with": effect.together_with,
        "never_applied": effect.never_applied,
    }


def _describe_interval(interval: Interval | None) -> dict[str, float | None]:
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}


def _read_step(sent: CanaryStepInput) -> RolloutStep:
    # Rounded, as 0.1 percent is no exact float.
    return RolloutStep(share=round(sent.percent * 10), units=sent.units)
