"""Say what an experiment found: one sentence, the figures behind it, and what it cannot tell yet."""

from collections.abc import Sequence
from math import expm1
from typing import Any

from django.template.loader import render_to_string

from evaluation.experiments.afterwards import compare_with_trial, find_fading, find_promoted
from evaluation.experiments.analysis import ALL_THE_SAME, FAMILIES_ALARM, MISSING_ALARM, ArmVerdict, State, show_e_value
from evaluation.experiments.lifecycle import find_unwatched_canaries
from evaluation.experiments.models import Experiment, Look
from evaluation.experiments.plan import RATIOS, THOUSANDTHS, DecisionRule, Guarded, Metric, plan_units
from evaluation.experiments.uplift import measure_uplift
from evaluation.reports.charts import draw_sequence
from evaluation.sequential import RATIO_ALARM

_STATES = {
    State.PENDING: "without an outcome yet",
    State.MISSING: "without one when the time was over",
    State.LATE: "reported too late",
    State.LEFT_OUT: "left out, since the releases are not known to answer them differently",
    State.UNTRUSTED: "known only from the agent or a judge",
}


def describe_experiment(experiment: Experiment) -> dict[str, Any]:
    """Return all that the page of an experiment shows; `chart` is SVG, empty with fewer than two looks."""
    # The chart needs only the figures, and the deferred columns are large.
    looks = list(experiment.looks.order_by("number").defer("guardrails", "outcomes", "reason"))
    last = experiment.looks.order_by("-number").first()
    return {
        "sentence": write_sentence(experiment, last),
        "plan": list_plan(experiment),
        "looks": looks,
        "last": last,
        "planned": write_planned(experiment, last),
        "chart": draw_looks(experiment, looks),
        "guardrails": list_guardrails(last) if last else [],
        "outcomes": list_outcomes(last) if last else [],
        "families": list_families(last) if last else [],
        "alarms": [*(list_alarms(last) if last else ()), *list_warnings(experiment)],
        "cannot_tell": list_unknowns(experiment, last),
        "since": write_since(experiment, last),
    }


def write_sentence(experiment: Experiment, look: Look | None) -> str:
    """Return the result in a sentence, such as "Release 12 helps: +6.1 points [2.0, 10.2], 1,204 runs."."""
    who = name_treated(experiment)
    if look is None:
        return f"Nothing is known about {who} yet: no outcome has come in."
    units = look.control_units + look.treated_units
    runs = f"{units:,} run{'' if units == 1 else 's'}"
    estimate = show_estimate(look)
    # Before the verdict: with outcomes missing in one arm the estimate means nothing.
    if look.missing_e_value >= MISSING_ALARM and look.verdict == ArmVerdict.CONTINUE:
        return f"Nothing can be said about {who}: outcomes are missing in {_show_missing(look)}. {runs} are known."
    if look.reason == ALL_THE_SAME:
        return f"Nothing can be learnt about {who}: {ALL_THE_SAME} ({runs})"
    match look.verdict:
        case ArmVerdict.INVALID:
            return f"Nothing can be said about {who}: {look.reason}"
        case ArmVerdict.ROLL_BACK:
            done = "was rolled back" if experiment.compared == Experiment.Compared.CANARY else "does harm"
            return f"{who} {done}. {look.reason} {estimate}, {runs}."
        case ArmVerdict.BETTER if experiment.rule == DecisionRule.NOT_WORSE:
            return f"{who} is not worse by {100 * experiment.margin:.1f} points or more: {estimate}, {runs}."
        case ArmVerdict.BETTER:
            # What the estimate is worth then is said in `list_unknowns`.
            return f"{who} helps: {estimate}, {runs}."
        case ArmVerdict.WORSE:
            return f"{who} looks worse: {estimate}, {runs}."
        case ArmVerdict.NO_BENEFIT:
            return f"{who} showed no benefit: {estimate}, {runs}."
    if experiment.status == Experiment.Status.ENDED:
        return f"The experiment ended before {who} could be judged: {estimate}, {runs}. {experiment.reason}"
    return f"Not known yet whether {who} helps: {estimate}, {runs}. It ends after {show_most(experiment)}."


def name_treated(experiment: Experiment) -> str:
    """Return what is tried: "Release 12", or "Memory" where lessons are compared with none."""
    if experiment.compared == Experiment.Compared.MEMORY:
        return "Memory"
    assert experiment.treated_release is not None
    return f"Release {experiment.treated_release.number}"


def list_plan(experiment: Experiment) -> list[tuple[str, str]]:
    """Return the plan as names and values."""
    steps = ", then ".join(f"{step['share'] / 10:g}% until {step['units']:,} units" for step in experiment.steps)
    against = f"release {experiment.control_release.number}" if experiment.control_release else "no lessons (hold-out)"
    return [
        ("Compared", f"{name_treated(experiment)} with {against}"),
        ("Measured", f"{experiment.get_metric_display()}, {experiment.get_unit_rule_display().lower()}"),
        ("Counts", "units that the releases answer differently" if experiment.only_differing else "all units"),
        ("Method", experiment.get_method_display()),
        ("Decides", experiment.get_rule_display()),
        ("Margin", f"{100 * experiment.margin:.1f} points"),
        ("False alarms", f"at most {100 * experiment.alpha:g}% over all looks (τ = {experiment.tau:g})"),
        ("At most", show_most(experiment)),
        ("Outcomes wait", f"{experiment.look_back_seconds / 3600:g} hours"),
        ("Steps", steps or "set by hand"),
        ("Promotion", experiment.get_promotes_display()),
    ]


def show_most(experiment: Experiment) -> str:
    """Return after how many units the experiment ends, as part of a sentence."""
    last = f" at {experiment.steps[-1]['share'] / 10:g}%" if experiment.steps else ""
    return f"{experiment.max_units:,} units with a known outcome{last}"


def write_planned(experiment: Experiment, look: Look | None) -> str:
    """Return how many units are planned, and how many would find the effect hoped for, in sentences."""
    sentence = f"Planned: at most {show_most(experiment)}."
    # Half succeed, where nothing is known: the base at which the most units are needed.
    base = look.control_mean if look and look.control_mean is not None else 0.5
    share = experiment.steps[-1]["share"] if experiment.steps else look.share if look else 500
    if experiment.metric != Metric.SUCCESS or not 0 < base < base + experiment.tau < 1 or not 0 < share < THOUSANDTHS:
        return sentence
    wanted = plan_units(base, experiment.tau, treated_share=share / THOUSANDTHS)
    return (
        f"{sentence} To find {100 * experiment.tau:+.1f} points from {100 * base:.0f}% with 80% power takes about "
        f"{wanted:,}, at {share / 10:g}% in the treated arm."
    )


def list_guardrails(look: Look) -> list[dict[str, Any]]:
    """Return a row for each guardrail with its difference as text."""
    rows = []
    for name in Guarded.values:
        if (guardrail := look.guardrails.get(name)) is None:
            continue
        untrusted = guardrail.get("untrusted") or {}
        rows.append(
            {
                "name": name,
                "label": Guarded(name).label,
                "shown": _show_harm(name, guardrail["difference"]),
                "e_value": guardrail["e_value"],
                "fired": guardrail["fired"],
                "comparable": guardrail.get("comparable", True),
                "untrusted": _show_harm(name, untrusted["difference"]) if untrusted.get("fired") else "",
            }
        )
    return rows


def _show_harm(name: str, difference: float | None) -> str:
    if difference is None:
        return "not known"
    # Back from logarithms: exp(d) − 1 is the change in percent.
    return f"{100 * expm1(difference):+.1f}%" if name in RATIOS else f"{100 * difference:+.1f} points"


def list_families(look: Look) -> list[dict[str, Any]]:
    """Return a row for each task family, those with the most units first. A figure without an interval is not shown."""
    return [
        row
        | {
            "name": row["family"] or "no task family",
            "shown": "too few" if row["low"] is None else show_points(row["estimate"], row["low"], row["high"]),
        }
        for row in look.families.get("rows", ())
    ]


def list_outcomes(look: Look) -> list[dict[str, Any]]:
    """Return for each arm how many units there are by what is known of them, with the share that has no outcome."""
    rows = []
    for arm, counts in look.outcomes.items():
        whole = sum(counts.values())
        # Units left out by the plan have an outcome, so they are not lost.
        lost = whole - sum(counts.get(state, 0) for state in (State.KNOWN, State.LEFT_OUT))
        row = {state: counts.get(state, 0) for state in State.values}
        rows.append({"arm": arm, "units": whole, "lost_share": lost / whole if whole else 0.0, **row})
    return rows


def list_alarms(look: Look) -> list[str]:
    """Return what casts doubt on the figures."""
    alarms = []
    if look.ratio_e_value >= RATIO_ALARM:
        alarms.append(f"The arms do not have the planned shares (e = {show_e_value(look.ratio_e_value)}).")
    if look.missing_e_value >= MISSING_ALARM:
        alarms.append(
            f"Outcomes are missing in {_show_missing(look)}, those that may still come included "
            f"(e = {show_e_value(look.missing_e_value)}). That alone can make an arm look better, so nothing is "
            "promoted or rolled back until it is explained."
        )
    if look.reason == ALL_THE_SAME:
        alarms.append(ALL_THE_SAME)
    return [*alarms, *_list_guardrail_alarms(look), *_list_family_alarms(look)]


def _show_missing(look: Look) -> str:
    shares = {row["arm"]: f"{100 * row['lost_share']:.1f}%" for row in list_outcomes(look)}
    return f"{shares.get('treated', '0%')} of the treated units and {shares.get('control', '0%')} of the others"


def _list_guardrail_alarms(look: Look) -> list[str]:
    """Return what guardrails would say of runs that do not count, or of figures that only one arm reports."""
    alarms = []
    for row in list_guardrails(look):
        if not row["comparable"]:
            alarms.append(
                f"{row['label']}: {row['shown']}, but one arm reports this more often than the other, so it is not "
                "compared. Find out why."
            )
        # Where the trusted runs fire as well, the guardrail has said it.
        if row["untrusted"] and not row["fired"]:
            alarms.append(
                f"{row['label']}: {row['untrusted']} with the runs whose outcome does not count, since it came from an "
                "agent or a judge, or has not come. Any agent can report such runs, so they roll nothing back: look at "
                "them."
            )
    return alarms


def _list_family_alarms(look: Look) -> list[str]:
    rows = [row for row in list_families(look) if row["low"] is not None]
    if look.families.get("e_value", 1.0) < FAMILIES_ALARM or not rows:
        return []
    best, worst = (choose(rows, key=lambda row: row["estimate"]) for choose in (max, min))
    are = "opposite in" if worst["estimate"] < 0 < best["estimate"] else "different between"
    alarm = (
        f"The effects are {are} task families (e = {show_e_value(look.families['e_value'])}): {best['shown']} in "
        f"{best['name']}, {worst['shown']} in {worst['name']}. The figure for all runs hides that."
    )
    return [alarm]


def list_warnings(experiment: Experiment) -> list[str]:
    """Return what has to be done about an experiment that has ended. Three queries at most."""
    if experiment.status != Experiment.Status.ENDED:
        return []
    if experiment in find_unwatched_canaries(experiment.project):
        return [describe_unwatched(experiment)]
    look = experiment.looks.order_by("-number").first() if find_promoted(experiment) else None
    if look is None:
        return []
    # The newest runs, as fading shows late.
    since = compare_with_trial(experiment, look, newest=True)
    fell = find_fading(experiment, since)
    if fell is None:
        return []
    warning = (
        f"The effect may have faded: {-100 * fell.high:.1f} to {-100 * fell.low:.1f} points less. {since.in_words()} "
        "The work may also have become harder; only a hold-out, or another trial, can tell the two apart."
    )
    return [warning]


def write_since(experiment: Experiment, look: Look | None) -> str:
    """Return how a promoted release has done since its trial, in a sentence; empty where it is not what agents get."""
    if look is None or not find_promoted(experiment):
        return ""
    since = compare_with_trial(experiment, look, newest=True)
    if not since.now.n:
        return "It was promoted. No run that counts has ended since."
    if not experiment.deployment.holdout_share or not (experiment.treated_release and experiment.ended_at):
        return since.in_words()
    uplift = measure_uplift(experiment.project, since=experiment.ended_at).by_release.get(
        experiment.treated_release.number
    )
    if uplift is None or uplift.interval is None or uplift.estimate is None:
        return f"{since.in_words()} Too little is known of the hold-out since then."
    points = show_points(uplift.estimate, uplift.interval.low, uplift.interval.high)
    return f"{since.in_words()} Against the hold-out since then: {points}."


def describe_unwatched(experiment: Experiment) -> str:
    """Say that the canary of an ended experiment goes on, and what to do."""
    share = experiment.deployment.canary_share / 10
    return (
        f"{name_treated(experiment)} still runs as a canary of {share:g}%, and nothing has watched it since "
        f"{experiment} ended. Promote it or roll it back."
    )


def list_unknowns(experiment: Experiment, look: Look | None) -> list[str]:
    """Return what the experiment cannot tell yet, in sentences."""
    unknown = []
    if look is None or look.low is None or look.high is None:
        unknown.append("There are too few outcomes for an interval: each arm needs 30.")
    elif look.low <= 0 <= look.high:
        # Half the width of the interval, in points.
        reach = 50 * (look.high - look.low)
        unknown.append(f"An effect of less than about {reach:.1f} points cannot be told from chance so far.")
    if look is not None and look.verdict == ArmVerdict.BETTER:
        unknown.append(
            "It ended as soon as the interval was above zero, and that happens sooner when chance helps: the estimate "
            "is probably too high. The interval holds."
        )
    for row in list_outcomes(look) if look else []:
        counts = [f"{row[state]:,} {words}" for state, words in _STATES.items() if row[state]]
        if counts:
            unknown.append(f"Of the {row['units']:,} {row['arm']} units: {', '.join(counts)}.")
    if experiment.metric == Metric.SUCCESS:
        unknown.append("It says nothing about single lessons, only about all that the arms are given.")
    return unknown


def draw_looks(experiment: Experiment, looks: Sequence[Look]) -> str:
    """Return how the interval narrowed as SVG."""
    points = [
        {
            "units": look.control_units + look.treated_units,
            "estimate": look.estimate,
            "low": look.low,
            "high": look.high,
        }
        for look in looks
        if look.low is not None
    ]
    chart = draw_sequence(points, planned=experiment.max_units)
    return render_to_string("evaluation/sequence.svg", {"chart": chart}) if chart else ""


def show_estimate(look: Look) -> str:
    """Return the difference with its interval as far as they are known."""
    if look.estimate is None:
        return "no difference is known"
    return show_points(look.estimate, look.low, look.high)


def show_points(estimate: float, low: float | None, high: float | None) -> str:
    """Return a difference as people read it: "+6.1 points [2.0, 10.2]"."""
    points = f"{100 * estimate:+.1f} points"
    return points if low is None or high is None else f"{points} [{100 * low:.1f}, {100 * high:.1f}]"
