"""Experiments over the rows that live traffic leaves: plans, looks, and what they do."""

import threading
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from evaluation.errors import ExperimentEnded, PlanInvalid
from evaluation.experiments.analysis import ArmVerdict
from evaluation.experiments.lifecycle import find_unwatched_canaries, start_experiment, stop_experiment
from evaluation.experiments.looks import look_at_experiments, take_look
from evaluation.experiments.models import Experiment, Look
from evaluation.experiments.plan import GUARDRAILS, ExperimentPlan, Guardrail, RolloutStep
from evaluation.experiments.uplift import measure_uplift
from evaluation.models import ShadowAnswer
from evaluation.reports.experiments import describe_experiment
from memory.effects.models import HeuristicFeedback
from memory.projects.models import Project
from memory.releases.deployments import (
    DeploymentChange,
    change_deployment,
    cut_release,
    promote,
    roll_back,
    start_canary,
)
from memory.releases.models import Deployment, DeploymentEvent
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from memory.trust.audit import verify_audit
from reflection.webhooks.models import WebhookDelivery, WebhookEndpoint
from tests.evaluation.experiment_rows import (
    OPERATOR,
    PLAN,
    SUCCESS_ONLY,
    Traffic,
    make_deployed,
    make_experiment,
    make_held_out,
)
from tests.factories import make_heuristic
from tests.waiting import is_anyone_waiting, wait_until

pytestmark = pytest.mark.django_db


def deployment_of(experiment: Experiment) -> Deployment:
    return Deployment.objects.get(project=experiment.project_id)


def look(experiment: Experiment) -> Look:
    found = take_look(experiment.pk)
    assert found is not None
    experiment.refresh_from_db()
    return found


# ── Start and end ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_start_begins_canary_at_first_step() -> None:
    project, release = make_deployed()
    plan = replace(PLAN, steps=(RolloutStep(share=10, units=5), RolloutStep(share=100, units=5)))

    experiment = start_experiment(project, plan=plan, by=OPERATOR, release=release)

    deployment = deployment_of(experiment)
    assert (deployment.candidate, deployment.canary_share) == (release, 10)
    assert (experiment.number, experiment.control_release) == (1, deployment.stable)
    assert experiment.plan == plan


def test_plan_cannot_be_changed() -> None:
    experiment = make_experiment()

    with pytest.raises(IntegrityError, match="start a new one"):
        Experiment.objects.filter(pk=experiment.pk).update(alpha=0.2)


def test_ended_experiment_cannot_be_changed_or_ended_again() -> None:
    experiment = stop_experiment(make_experiment(), by=OPERATOR, reason="Enough.")

    with pytest.raises(ExperimentEnded):
        stop_experiment(experiment, by=OPERATOR)
    with pytest.raises(IntegrityError, match="stays as it is"):
        Experiment.objects.filter(pk=experiment.pk).update(conclusion="better")


def test_look_cannot_be_changed_or_deleted() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment).send(40)
    look(experiment)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        Look.objects.update(verdict="better")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        Look.objects.all().delete()


# ── What counts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_equal_arms_go_on() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment).send(300)

    found = look(experiment)

    assert (found.verdict, found.control_units + found.treated_units) == (ArmVerdict.CONTINUE, 300)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


@pytest.mark.parametrize("source", ["agent", "judge"])
def test_outcome_reported_by_agent_or_judge_never_promotes(source: str) -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment, base=0.1, lift=0.8, outcome_source=source).send(400)

    found = look(experiment)

    assert (found.verdict, found.treated_units) == (ArmVerdict.CONTINUE, 0)
    assert found.outcomes["treated"].keys() == {"untrusted"}


def test_unit_counts_once_in_the_arm_it_was_first_given() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment).send(2)
    Retrieval.objects.update(unit="session:same")

    found = look(experiment)

    assert sum(sum(counts.values()) for counts in found.outcomes.values()) == 1


def test_mean_of_the_runs_of_a_unit_is_one_observation() -> None:
    experiment = make_experiment(plan=replace(PLAN, unit_rule="mean"))
    Traffic(experiment=experiment).send(4)
    Retrieval.objects.update(unit="session:same", arm="stable")
    kept = Trajectory.objects.order_by("created_at").first()
    Trajectory.objects.update(outcome="failure")
    Trajectory.objects.filter(pk=kept.pk).update(outcome="success")  # type: ignore[union-attr]

    found = look(experiment)

    assert (found.control_units, found.control_mean) == (1, 0.25)


def test_pinned_and_earlier_answers_do_not_count() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment).send(2)
    first, second = Retrieval.objects.order_by("pk")
    Retrieval.objects.filter(pk=first.pk).update(arm="pinned")
    Retrieval.objects.filter(pk=second.pk).update(created_at=timezone.now() - timedelta(days=1))

    assert look(experiment).outcomes == {"control": {}, "treated": {}}


def test_late_and_missing_outcomes_of_one_arm_raise_an_alarm() -> None:
    experiment = make_experiment(plan=replace(PLAN, look_back_seconds=3600))
    Traffic(experiment=experiment, lost={"candidate": 0.2}, late={"candidate": 0.1}).send(600)
    Retrieval.objects.update(created_at=timezone.now() - timedelta(seconds=5400))
    Experiment.objects.filter(pk=experiment.pk)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE evaluation_experiment SET started_at = started_at - interval '2 hours'")
        cursor.execute("UPDATE memory_trajectory SET outcome_at = outcome_at - interval '90 minutes'")

    found = look(experiment)

    assert found.missing_e_value > 100
    assert found.outcomes["treated"]["missing"] > 30
    assert found.outcomes["treated"]["late"] > 10
    assert found.outcomes["control"].keys() == {"known"}


def test_broken_splitter_leaves_no_verdict() -> None:
    experiment = make_experiment(share=100)
    Traffic(experiment=experiment, base=0.2, lift=0.6).send(600, share=0.2)

    found = look(experiment)

    assert found.verdict == ArmVerdict.INVALID
    assert (experiment.status, experiment.conclusion) == ("ended", ArmVerdict.INVALID)
    assert deployment_of(experiment).candidate_id is not None


# ── What a look does ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_harm_is_rolled_back_at_once_with_event_audit_and_message() -> None:
    experiment = make_experiment(share=200)
    WebhookEndpoint.objects.create(
        project=experiment.project,
        url="https://example.com",
        events=["experiment.ended"],
        desk_url="https://example.com",
    )
    Traffic(experiment=experiment, base=0.8, lift=-0.5).send(400)

    found = look(experiment)

    assert found.verdict == ArmVerdict.ROLL_BACK
    assert (experiment.status, experiment.conclusion, experiment.ended_by) == (
        "ended",
        "roll_back",
        "policy:experiments",
    )
    assert deployment_of(experiment).candidate_id is None
    event = DeploymentEvent.objects.latest("version")
    assert (event.kind, event.made_by) == ("rolled_back", "policy:experiments")
    assert event.reason == "Experiment 1: Worse than the control: success."
    assert WebhookDelivery.objects.get().details == {"experiment": 1, "conclusion": "roll_back"}


def test_benefit_is_suggested_and_waits_for_a_person() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment, base=0.3, lift=0.4).send(300)

    found = look(experiment)

    assert (found.verdict, experiment.conclusion) == (ArmVerdict.BETTER, "better")
    assert deployment_of(experiment).candidate == experiment.treated_release


def test_benefit_is_promoted_where_the_policy_decides() -> None:
    experiment = make_experiment(promotes="policy")
    Traffic(experiment=experiment, base=0.3, lift=0.4).send(300)

    look(experiment)

    assert deployment_of(experiment).stable == experiment.treated_release
    assert DeploymentEvent.objects.latest("version").kind == "promoted"


def test_experiment_ends_without_benefit_at_its_maximum() -> None:
    experiment = make_experiment(plan=replace(PLAN, max_units=200))
    Traffic(experiment=experiment).send(200)

    assert look(experiment).verdict == ArmVerdict.NO_BENEFIT
    assert experiment.status == "ended"
    assert look_at_experiments() == []


def test_canary_climbs_its_steps_and_is_judged_after_the_last() -> None:
    project, release = make_deployed()
    plan = replace(PLAN, steps=(RolloutStep(share=100, units=20), RolloutStep(share=500, units=30)))
    experiment = start_experiment(project, plan=plan, by=OPERATOR, release=release)
    traffic = Traffic(experiment=experiment, base=0.2, lift=0.6)

    traffic.send(80)
    first = look(experiment)
    assert (first.verdict, first.share, deployment_of(experiment).canary_share) == (ArmVerdict.CONTINUE, 100, 100)
    traffic.send(150)
    second = look(experiment)
    assert (second.verdict, deployment_of(experiment).canary_share) == (ArmVerdict.CONTINUE, 500)
    traffic.send(100)
    third = look(experiment)

    assert (third.verdict, third.share) == (ArmVerdict.BETTER, 500)
    assert third.estimate == pytest.approx(0.6, abs=0.15)


@pytest.mark.parametrize(
    ("guardrail", "change"),
    [
        ("errors", {"steps": [{"index": 1, "error": "Refused"}]}),
        ("cost", {"cost_usd": "0.5"}),
        ("latency", {"ended_at": timezone.now(), "started_at": timezone.now() - timedelta(seconds=300)}),
    ],
)
def test_guardrail_reads_its_figure_from_the_runs(guardrail: str, change: dict[str, object]) -> None:
    plan = replace(PLAN, guardrails=(*SUCCESS_ONLY, Guardrail(metric=guardrail, tau=0.3)))
    experiment = make_experiment(plan=plan)
    now = timezone.now()
    traffic = Traffic(experiment=experiment)
    traffic.send(200, cost_usd="0.1", started_at=now - timedelta(seconds=60), ended_at=now)
    Trajectory.objects.filter(retrieval__arm="candidate").update(**change)

    found = look(experiment)

    assert found.reason == f"Worse than the control: {guardrail}."


def test_reported_harm_fires_its_guardrail() -> None:
    experiment = make_experiment(plan=replace(PLAN, guardrails=(*SUCCESS_ONLY, Guardrail(metric="harm"))))
    Traffic(experiment=experiment).send(200)
    lesson = make_heuristic(project=experiment.project, status="approved")
    harmed = Trajectory.objects.filter(retrieval__arm="candidate")
    HeuristicFeedback.objects.bulk_create(
        HeuristicFeedback(
            project=experiment.project,
            heuristic=lesson,
            trajectory=run,
            verdict="followed",
            helpful=False,
            client="agent",
        )
        for run in harmed
    )

    assert look(experiment).reason == "Worse than the control: harm."


def test_experiment_ends_when_a_person_changes_the_deployment() -> None:
    experiment = make_experiment()
    promote(experiment.project, by=OPERATOR)

    assert take_look(experiment.pk) is None
    experiment.refresh_from_db()
    assert (experiment.status, experiment.conclusion) == ("ended", "")
    assert "The deployment was changed" in experiment.reason


def test_all_running_experiments_are_looked_at_though_one_is_refused() -> None:
    refused, other = make_experiment(promotes="policy"), make_experiment()
    Traffic(experiment=refused, base=0.3, lift=0.5).send(200)
    Traffic(experiment=other).send(40)
    Project.objects.filter(pk=refused.project_id).update(archived_at=timezone.now())

    looks = look_at_experiments()

    assert [each.experiment_id for each in looks] == [other.pk]


def test_audit_chain_is_complete_after_rollback() -> None:
    experiment = make_experiment(share=200)
    Traffic(experiment=experiment, base=0.8, lift=-0.5).send(400)
    look(experiment)

    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert verify_audit().faults == []


@pytest.mark.django_db(transaction=True)
def test_two_processes_take_one_look() -> None:
    experiment = make_experiment(share=200)
    Traffic(experiment=experiment, base=0.8, lift=-0.5).send(400)
    looks: list[Look | None] = []

    def run() -> None:
        looks.append(take_look(experiment.pk))
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len([each for each in looks if each is not None]) == 1
    assert DeploymentEvent.objects.filter(kind="rolled_back").count() == 1


# ── Hold-out ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_is_compared_with_the_holdout() -> None:
    experiment = make_held_out(units=600, base=0.3, lift=0.3)

    found = look(experiment)

    assert (experiment.compared, found.verdict) == ("memory", ArmVerdict.BETTER), (
        found.reason,
        found.outcomes,
        found.estimate,
        found.low,
        found.e_value,
        found.ratio_e_value,
    )
    assert found.estimate == pytest.approx(0.3, abs=0.12)


def test_harm_of_memory_ends_the_experiment_and_leaves_the_deployment() -> None:
    experiment = make_held_out(units=600, base=0.8, lift=-0.4)
    before = deployment_of(experiment).version

    assert look(experiment).verdict == ArmVerdict.ROLL_BACK
    assert deployment_of(experiment).version == before


def test_uplift_is_measured_as_a_whole_by_release_and_by_family() -> None:
    experiment = make_held_out(units=600, base=0.3, lift=0.3)

    report = measure_uplift(experiment.project, since=timezone.now() - timedelta(days=1))

    assert (report.whole.guided, report.whole.held_out) == (480, 120)
    assert report.whole.interval is not None
    assert report.whole.interval.low > 0
    assert report.by_release.keys() == {1}
    assert report.by_family["airline.cancel"].estimate == report.whole.estimate


def test_uplift_of_a_candidate_is_measured_against_the_holdout_of_its_time() -> None:
    project, release = make_deployed(holdout=200)
    start_canary(project, release=release, share=500, by=OPERATOR)
    experiment = start_experiment(project, plan=PLAN, by=OPERATOR, release=release)
    Traffic(experiment=experiment, base=0.2).send(60, share=0)
    Retrieval.objects.update(arm="holdout")
    Traffic(experiment=experiment, base=0.4, lift=0.4).send(200)

    found = measure_uplift(project, since=experiment.started_at).by_release

    assert {number: each.held_out for number, each in found.items()} == {1: 60, 2: 60}
    assert found[1].guided + found[2].guided == 200
    assert found[2].estimate == pytest.approx(0.6, abs=0.15)


def test_holdout_that_ends_ends_the_experiment() -> None:
    experiment = make_held_out(units=10, base=0.5, lift=0.0)
    change_deployment(experiment.project, by=OPERATOR, change=DeploymentChange(holdout_share=0))

    assert take_look(experiment.pk) is None
    experiment.refresh_from_db()
    assert experiment.reason == "The hold-out ended."


def test_rollback_of_another_canary_ends_the_experiment() -> None:
    experiment = make_experiment()
    roll_back(experiment.project, by=OPERATOR)

    assert take_look(experiment.pk) is None
    experiment.refresh_from_db()
    assert experiment.status == "ended"


def test_canary_of_another_release_in_between_ends_the_experiment() -> None:
    """Its units have the same arm, and would count for the release on trial."""
    experiment = make_experiment()
    project, release = experiment.project, experiment.treated_release
    assert release is not None
    make_heuristic(project=project, status="approved")
    start_canary(project, release=cut_release(project, by=OPERATOR), share=500, by=OPERATOR)
    start_canary(project, release=release, share=500, by=OPERATOR)

    assert take_look(experiment.pk) is None
    experiment.refresh_from_db()
    assert "The deployment was changed" in experiment.reason


def test_another_unit_ends_the_experiment() -> None:
    experiment = make_experiment()
    change_deployment(experiment.project, by=OPERATOR, change=DeploymentChange(unit="task"))

    assert take_look(experiment.pk) is None
    experiment.refresh_from_db()
    assert "another unit" in experiment.reason


@pytest.mark.django_db(transaction=True)
def test_look_does_not_promote_what_a_person_rolls_back_meanwhile() -> None:
    experiment = make_experiment(promotes="policy")
    Traffic(experiment=experiment, base=0.2, lift=0.6).send(200)
    looks: list[Look | None] = []

    def run() -> None:
        with closing(connection):
            looks.append(take_look(experiment.pk))

    looking = threading.Thread(target=run)
    with transaction.atomic():
        roll_back(experiment.project, by=OPERATOR)
        looking.start()
        wait_until(is_anyone_waiting)
    looking.join()

    experiment.refresh_from_db()
    assert (looks, experiment.status, experiment.conclusion) == ([None], "ended", "")
    assert deployment_of(experiment).stable == experiment.control_release


def test_default_plan_can_be_carried_out() -> None:
    assert ExperimentPlan().check().guardrails[0].metric == "success"


# ── After the end ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_canary_that_goes_on_after_its_experiment_is_an_alarm() -> None:
    experiment = make_experiment()
    assert find_unwatched_canaries(experiment.project) == []

    stop_experiment(experiment, by=OPERATOR)

    assert find_unwatched_canaries() == [experiment]
    (alarm,) = describe_experiment(experiment)["alarms"]
    assert alarm.startswith("Release 2 still runs as a canary of 50%")


def test_canary_that_was_rolled_back_or_is_watched_again_is_no_alarm() -> None:
    ended = stop_experiment(make_experiment(), by=OPERATOR)
    roll_back(ended.project, by=OPERATOR)
    watched = stop_experiment(make_experiment(), by=OPERATOR)
    start_experiment(watched.project, plan=PLAN, by=OPERATOR, release=watched.treated_release)

    assert find_unwatched_canaries() == []


def promote_after_trial() -> Experiment:
    experiment = make_experiment(promotes="policy")
    Traffic(experiment=experiment, base=0.3, lift=0.4).send(300)
    take_look(experiment.pk)
    experiment.refresh_from_db()
    assert experiment.conclusion == ArmVerdict.BETTER
    return experiment


def test_effect_that_fades_after_the_promotion_is_an_alarm() -> None:
    experiment = promote_after_trial()
    Traffic(experiment=experiment, base=0.3).send(300, share=0)

    shown = describe_experiment(experiment)

    assert shown["alarms"][0].startswith("The effect may have faded: ")
    assert "of 300 units succeeded; in its trial" in shown["since"]


def test_effect_that_stays_after_the_promotion_is_no_alarm() -> None:
    experiment = promote_after_trial()
    Traffic(experiment=experiment, base=0.7).send(300, share=0)

    shown = describe_experiment(experiment)

    assert shown["alarms"] == []
    assert "of 300 units succeeded; in its trial" in shown["since"]


def test_estimate_of_a_trial_that_ended_early_is_said_to_be_too_high() -> None:
    assert any("probably too high" in each for each in describe_experiment(promote_after_trial())["cannot_tell"])


# ── What any agent can report ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("guardrail", "change"),
    [
        ("errors", {"steps": [{"index": 1, "error": "Refused"}]}),
        ("cost", {"cost_usd": "500"}),
        ("latency", {"ended_at": timezone.now(), "started_at": timezone.now() - timedelta(hours=3)}),
    ],
)
@pytest.mark.parametrize("source", ["agent", "judge"])
def test_untrusted_runs_roll_nothing_back_and_raise_an_alarm(
    source: str, guardrail: str, change: dict[str, object]
) -> None:
    experiment = make_experiment(plan=replace(PLAN, guardrails=GUARDRAILS))
    now = timezone.now()
    traffic = Traffic(experiment=experiment, outcome_source=source)
    traffic.send(200, cost_usd="0.1", started_at=now - timedelta(seconds=60), ended_at=now)
    Trajectory.objects.filter(retrieval__arm="candidate").update(**change)

    found = look(experiment)

    assert found.verdict == ArmVerdict.CONTINUE
    assert not found.guardrails[guardrail]["fired"]
    assert found.guardrails[guardrail]["untrusted"]["fired"]
    assert any("Any agent can report such runs" in alarm for alarm in describe_experiment(experiment)["alarms"])
    assert deployment_of(experiment).candidate_id is not None


def give_feedback(experiment: Experiment, arm: str, **values: object) -> None:
    lesson = make_heuristic(project=experiment.project, status="approved")
    HeuristicFeedback.objects.bulk_create(
        HeuristicFeedback(
            **{"project": experiment.project, "heuristic": lesson, "trajectory": run, "client": "agent"} | values
        )
        for run in Trajectory.objects.filter(retrieval__arm=arm)
    )


def test_untrusted_feedback_rolls_nothing_back() -> None:
    experiment = make_experiment(plan=replace(PLAN, guardrails=GUARDRAILS))
    Traffic(experiment=experiment).send(200, outcome="unknown", outcome_source="agent")
    give_feedback(experiment, "candidate", verdict="followed", helpful=False)

    found = look(experiment)

    assert (found.verdict, found.guardrails["harm"]["untrusted"]["fired"]) == (ArmVerdict.CONTINUE, True)


def test_feedback_from_one_arm_only_is_not_compared() -> None:
    """Some of it is good: so silence in the other arm is no sign that no lesson did harm there."""
    experiment = make_experiment(plan=replace(PLAN, guardrails=GUARDRAILS))
    Traffic(experiment=experiment).send(200)
    give_feedback(experiment, "candidate", verdict="followed", helpful=True)
    halves = HeuristicFeedback.objects.order_by("id").values_list("id", flat=True)[:60]
    HeuristicFeedback.objects.filter(pk__in=list(halves)).update(helpful=False)

    found = look(experiment)

    assert (found.verdict, found.guardrails["harm"]["comparable"]) == (ArmVerdict.CONTINUE, False)
    assert any("one arm reports this more often" in alarm for alarm in describe_experiment(experiment)["alarms"])


def test_cost_that_one_arm_reports_of_failures_only_is_not_compared() -> None:
    experiment = make_experiment(plan=replace(PLAN, guardrails=GUARDRAILS))
    Traffic(experiment=experiment).send(400, cost_usd="0.1")
    Trajectory.objects.filter(outcome="failure").update(cost_usd="0.5")
    Trajectory.objects.filter(outcome="success", retrieval__arm="candidate").update(cost_usd=None)

    found = look(experiment)

    assert (found.verdict, found.guardrails["cost"]["comparable"]) == (ArmVerdict.CONTINUE, False)


@pytest.mark.parametrize("promotes", ["people", "policy"])
def test_outcomes_that_one_arm_still_awaits_hold_everything_back(promotes: str) -> None:
    """The failures of the candidate are slow, so that for now it only succeeds."""
    experiment = make_experiment(promotes=promotes)
    Traffic(experiment=experiment).send(120)
    Trajectory.objects.filter(retrieval__arm="candidate", outcome="failure").delete()

    found = look(experiment)

    assert (found.verdict, experiment.status) == (ArmVerdict.CONTINUE, "running")
    assert found.missing_e_value > 100
    assert deployment_of(experiment).candidate_id == experiment.treated_release_id


def test_uplift_with_slow_failures_on_one_side_is_doubtful() -> None:
    experiment = make_held_out(units=400, base=0.5, lift=0.0)
    Trajectory.objects.filter(retrieval__arm="stable", outcome="failure").delete()

    whole = measure_uplift(experiment.project, since=experiment.started_at).whole

    assert (whole.is_doubtful, whole.interval) == (True, None)


# ── Only what differs ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_plan_that_counts_what_differs_needs_shadow() -> None:
    project, release = make_deployed()
    start_canary(project, release=release, share=500, by=OPERATOR)

    with pytest.raises(PlanInvalid, match="Only shadow knows"):
        start_experiment(project, plan=replace(PLAN, only_differing=True), by=OPERATOR, release=release)


def test_units_that_shadow_found_alike_or_did_not_compare_are_left_out() -> None:
    project, release = make_deployed()
    change_deployment(project, by=OPERATOR, change=DeploymentChange(shadow_share=1000))
    start_canary(project, release=release, share=500, by=OPERATOR)
    plan = replace(PLAN, only_differing=True)
    experiment = start_experiment(project, plan=plan, by=OPERATOR, release=release)
    Traffic(experiment=experiment).send(30)
    deployment = deployment_of(experiment)
    assert deployment.stable is not None
    ShadowAnswer.objects.bulk_create(
        ShadowAnswer(
            project=project,
            kind="answer",
            retrieval=answer,
            stable=deployment.stable,
            candidate=release,
            verdict="differs" if number < 12 else "same",
            at=answer.created_at,
            made_by="policy:shadow",
        )
        for number, answer in enumerate(Retrieval.objects.order_by("created_at")[:20])
    )

    found = look(experiment)

    assert found.control_units + found.treated_units == 12
    assert sum(arm["left_out"] for arm in found.outcomes.values()) == 18
