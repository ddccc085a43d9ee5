"""What lessons do: compared within strata, by chance where there is a hold-out, else only associated."""

from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.effects.comparison import ComparedRuns, LessonEffect, attribute, compare_lessons, find_inseparable
from memory.effects.harm import measure_lessons
from memory.effects.interval import Share
from memory.effects.stratified import Strata
from memory.heuristics.models import Heuristic
from memory.ids import uuid7
from memory.retrieval.models import Retrieval
from memory.review.models import Review
from tests.factories import make_heuristic, make_project, make_retrieval, make_trajectory
from tests.memory.effect_rows import make_lesson, record_observed, record_units

pytestmark = pytest.mark.django_db
INBOX = reverse("admin:inbox")


def get_effect(lesson: Heuristic) -> LessonEffect:
    (effect,) = [
        effect
        for effect in compare_lessons([lesson.project_id], since=timezone.now() - timedelta(days=1))
        if effect.heuristic_id == lesson.pk
    ]
    return effect


@pytest.fixture
def harmful() -> Heuristic:
    lesson = make_lesson(trigger="A bag is lost")
    record_units(lesson, arm="holdout", success=60, failure=20)
    record_units(lesson, success=80, failure=240)
    assert measure_lessons() == 1
    return lesson


def decide(client: Client, lesson: Heuristic, decision: str, **values: str) -> None:
    assert lesson.current_revision is not None
    lesson.refresh_from_db()
    sent = {"decision": decision, "content_sha256": lesson.current_revision.content_sha256, **values}
    client.post(reverse("admin:inbox_item", args=["harmful", lesson.pk]), sent)


# ── The comparison ────────────────────────────────────────────────────────────────────────────────────────────────
def test_difference_is_that_of_mantel_and_haenszel() -> None:
    """By hand: the weights are 24 and 40/3, the differences +8 and −10 points."""
    strata = Strata.of(120, 58, 30, 12) + Strata.of(15, 12, 120, 108)

    assert strata.difference is not None
    assert strata.difference.estimate == pytest.approx((24 * (58 / 120 - 0.4) - 40 / 3 * 0.1) / (24 + 40 / 3))


@pytest.mark.parametrize("successes", [0, 1])
def test_arms_that_end_alike_leave_doubt(successes: int) -> None:
    interval = Strata.of(40, 40 * successes, 40, 40 * successes).find_interval()

    assert interval is not None
    assert interval.low < -0.05
    assert interval.high > 0.05


@pytest.mark.parametrize("given", [29, 30])
def test_few_runs_on_one_side_tell_nothing(given: int) -> None:
    assert (Strata.of(given, 0, 500, 500).find_interval() is None) == (given < 30)


def test_lesson_for_hard_tasks_is_neither_harmful_nor_useless() -> None:
    """It helps in both families, +20 and +5 points, and is given where most runs fail: pooled, it seems to harm."""
    lesson = make_lesson()
    record_units(lesson, arm="holdout", family="hard", success=20, failure=30)
    record_units(lesson, family="hard", success=180, failure=120)
    record_units(lesson, arm="holdout", family="easy", success=119, failure=21)
    record_units(lesson, family="easy", success=18, failure=2)

    effect = get_effect(lesson)

    assert effect.difference == pytest.approx(0.16, abs=0.04)
    assert measure_lessons() == 0
    lesson.refresh_from_db()
    assert lesson.usefulness > 0.52


def test_effect_of_one_task_family_is_not_seen_where_nothing_was_drawn() -> None:
    """Of one family, but hard tasks get one lesson and easy ones the other: only the same tasks can be compared."""
    hard = make_heuristic(project=make_project(), status="approved")
    easy = make_heuristic(project=hard.project, status="approved")
    record_observed(hard, "Refund a split payment", given=(25, 55), without=(4, 16))
    record_observed(easy, "Show an order", given=(64, 16), without=(16, 4))

    measure_lessons()

    hard.refresh_from_db()
    easy.refresh_from_db()
    assert hard.usefulness > 0.52
    assert easy.usefulness == pytest.approx(0.5, abs=0.01)
    assert [get_effect(lesson).is_by_chance for lesson in (hard, easy)] == [False, False]


def test_runs_of_other_tasks_say_nothing_about_a_lesson() -> None:
    lesson = make_heuristic(project=make_project(), status="approved")
    record_observed(lesson, "Refund a split payment", given=(5, 75), without=(0, 0))
    record_observed(lesson, "Show an order", given=(0, 0), without=(80, 0))

    assert measure_lessons() == 0
    effect = get_effect(lesson)
    assert (effect.difference, effect.usefulness, str(effect.given)) == (None, 0.5, "6% (3–14%, 80 runs)")


def test_association_is_never_called_harm() -> None:
    lesson = make_heuristic(project=make_project(), status="approved")
    record_observed(lesson, "Show an order", given=(0, 200), without=(200, 0))

    assert measure_lessons() == 0
    assert get_effect(lesson).usefulness < 0.4


@pytest.mark.parametrize("source", ["agent", "judge"])
def test_outcomes_that_an_agent_or_a_judge_states_do_not_count(harmful: Heuristic, source: str) -> None:
    harmful.project.trajectories.update(outcome_source=source)

    assert measure_lessons() == 0


def test_outcomes_missing_on_one_side_hold_back_a_claim() -> None:
    """The lesson does nothing, but successes of the runs given it are never reported."""
    lesson = make_lesson()
    record_units(lesson, arm="holdout", success=50, failure=50)
    record_units(lesson, success=10, failure=150, pending=140)

    assert measure_lessons() == 0
    assert not get_effect(lesson).compared.is_reported_alike


def test_one_client_moves_usefulness_only_so_far() -> None:
    few = {"a": Strata.of(20, 0, 20, 20), "b": Strata.of(20, 20, 20, 0)}
    flood = {"a": Strata.of(10_000, 0, 10_000, 10_000), "b": Strata.of(20, 20, 20, 0)}
    given = Share(successes=1, known=2)

    effects = [
        LessonEffect(heuristic_id=uuid7(), given=given, compared=ComparedRuns(by_client=each)) for each in (few, flood)
    ]

    assert [effect.usefulness for effect in effects] == [0.5, 0.5]


# ── What cannot be told apart ─────────────────────────────────────────────────────────────────────────────────────
A, B, C = (UUID(int=number) for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("blocks", "together"),
    [
        ([([A, B], 138)], {A: (B,), B: (A,)}),
        ([([A, B], 138), ([A], 4)], {A: (B,), B: (A,)}),
        ([([A, B], 138), ([A], 3), ([B], 2)], {}),
        ([([A, B], 1), ([A], 1)], {}),
        ([([A], 2), ([B], 2)], {}),
        ([([A, B, C], 20), ([C], 9)], {A: (B,), B: (A,)}),
    ],
)
def test_lessons_of_the_same_runs_are_not_told_apart(blocks: Any, together: Any) -> None:
    assert find_inseparable(blocks) == together


def test_effect_of_a_lesson_is_not_credited_to_those_in_the_same_blocks() -> None:
    """Of another domain, but often in one block with it: in blocks without the lesson that helps it does nothing."""

    def compare(given: int, good: int, without: int, other_good: int) -> ComparedRuns:
        return ComparedRuns(by_client={"agent": Strata.of(given, good, without, other_good)})

    answers = {
        frozenset(): {A: compare(400, 340, 100, 50), B: compare(400, 310, 100, 50)},
        frozenset({A}): {B: compare(200, 100, 50, 25)},
    }

    effects = attribute(lambda settled: answers[frozenset(settled)], {})

    assert {lesson: each.find_sign(among=2) for lesson, each in effects.items()} == {A: 1, B: 0}


def test_effect_is_not_credited_to_each_of_several_lessons(admin_client: Client) -> None:
    one, other = (make_heuristic(status="approved", project=project) for project in [make_project()] * 2)
    answer = make_retrieval(project=one.project, heuristic_ids=[one.pk, other.pk])
    ends = Random(1)
    for retrieval in (answer, None):
        for _ in range(40):
            outcome = "success" if retrieval and ends.random() < 0.9 else "failure"
            make_trajectory(project=one.project, task="Show an order", retrieval=retrieval, outcome=outcome)
    measure_lessons()

    rows = admin_client.get(reverse("admin:lessons")).context["rows"]

    assert [row.difference.endswith("of all of them together") for row in rows] == [True, True]
    assert {row.basis for row in rows} == {
        "It was always given together with 1 other lesson, so which of them does this cannot be told."
    }
    assert set(Heuristic.objects.values_list("usefulness", flat=True)) == {0.5}


def test_lesson_that_applied_to_no_run_is_credited_with_none(admin_client: Client) -> None:
    lesson = make_heuristic(status="approved", project=make_project())
    record_observed(lesson, "Show an order", given=(60, 0), without=(0, 60))
    basis = {"runs": 12, "not_applicable": 12, "followed": 0, "contradicted": 0}
    Heuristic.objects.filter(pk=lesson.pk).update(usefulness_basis=basis)

    (row,) = admin_client.get(reverse("admin:lessons")).context["rows"]

    assert (row.difference, row.is_sure, row.effect.usefulness) == ("It applied to none of these runs", False, 0.5)


# ── In the inbox ──────────────────────────────────────────────────────────────────────────────────────────────────
def test_harmful_lesson_waits_with_its_interval(reviewer: Client, harmful: Heuristic) -> None:
    html = reviewer.get(INBOX).content.decode()

    assert 'data-kind="harmful"' in html
    assert '<p class="empty" hidden>' in html  # the lesson itself waits for no decision, but the list is not empty
    assert "−50 points (−" in html
    assert "succeed less often than runs from which chance withheld it" in html
    assert "320 runs against 80" in html
    assert 'value="keep"' in html


def test_few_runs_prove_no_harm() -> None:
    lesson = make_lesson()
    record_units(lesson, arm="holdout", success=10)
    record_units(lesson, failure=10)

    assert measure_lessons() == 0


def test_lesson_that_is_kept_is_left_alone_for_a_while(reviewer: Client, harmful: Heuristic) -> None:
    decide(reviewer, harmful, "keep")

    assert Review.objects.get().decision == "keep"
    assert measure_lessons() == 0
    assert "A bag is lost" not in reviewer.get(INBOX).content.decode()


def test_retired_lesson_leaves_the_inbox(reviewer: Client, harmful: Heuristic) -> None:
    decide(reviewer, harmful, "retire", reason_code="Wrong")

    harmful.refresh_from_db()
    assert harmful.status == "retired"
    assert "A bag is lost" not in reviewer.get(INBOX).content.decode()


def test_harm_that_is_over_is_forgotten(harmful: Heuristic) -> None:
    Retrieval.objects.update(created_at=timezone.now() - timedelta(days=91))
    harmful.project.trajectories.update(created_at=timezone.now() - timedelta(days=91))

    measure_lessons()

    harmful.refresh_from_db()
    assert (harmful.harm, harmful.usefulness) == (None, 0.5)
