"""Consolidation: what it proposes of what, that it adds nothing twice, changes nothing itself and survives."""

from typing import Any

import pytest

from memory.effects.models import UsageVerdict
from memory.effects.uses import refresh_uses
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from memory.runs.models import Trajectory
from reflection.consolidation.execution import run_consolidation
from reflection.consolidation.models import ConsolidationRun, Suggestion
from reflection.consolidation.requests import (
    request_consolidation,
    request_due_consolidations,
)
from reflection.jobs.queue import claim
from reflection.reflectors.reflections import run_reflection
from tests.factories import (
    make_evidence,
    make_heuristic,
    make_project,
    make_reflection,
    make_retrieval,
    make_trajectory,
)
from tests.reflection.scripted import ScriptedReflector, propose

pytestmark = pytest.mark.django_db

BY = Actor(label="user:ana")
Kind = Suggestion.Kind
Status = ConsolidationRun.Status
HELP: dict[str, Any] = {"trigger": "When a flight has to be changed", "polarity": "works", "task_id": "airline"}


def consolidate(project: Project, *, again: bool = False) -> ConsolidationRun:
    wanted = request_consolidation(project, cause="command", by=BY, again=again)
    run = run_consolidation(wanted.pk, owner="test")
    assert run is not None
    assert (run.status, run.last_error) == (Status.DONE, "")
    return run


def note(project: Project, text: str, *, task_id: str = "airline", score: float = 0.0, **overrides: Any) -> Trajectory:
    kind = "successes" if score > 0.5 else "mistakes"
    fields = {"steps": [], "outcome": "unknown", "score": score, "task_id": task_id, kind: [text]}
    return make_trajectory(project=project, **fields | overrides)


def use(heuristic: Heuristic, *, outcome: str, task_id: str = "airline", verdict: str = "followed") -> Trajectory:
    """A run that followed a lesson."""
    run = make_trajectory(project=heuristic.project, outcome=outcome, score=None, task_id=task_id, client=outcome)
    UsageVerdict.objects.create(
        project=heuristic.project,
        heuristic=heuristic,
        trajectory=run,
        content_sha256="0" * 64,
        verdict=verdict,
        judge="rules",
    )
    refresh_uses([heuristic.pk])
    return run


def state() -> list[Any]:
    revisions = HeuristicRevision.objects.order_by("pk").values_list("heuristic__status", "guideline", "served")
    return [
        list(revisions),
        list(Heuristic.objects.order_by("pk").values_list("pk", "support")),
        Evidence.objects.count(),
        list(Suggestion.objects.order_by("pk").values_list("pk", "status")),
    ]


def test_mistake_that_several_runs_noted_becomes_a_proposal_with_their_evidence() -> None:
    project = make_project()
    runs = [
        note(project, "The fare rules should be read before a change is offered to the customer"),
        note(project, "The agent should read the fare rules before it offers a change to the customer"),
    ]
    note(project, "The refund must be sent to the card that was used for the payment")

    run = consolidate(project)

    heuristic = Heuristic.objects.get()
    assert heuristic.current_revision is not None
    assert (heuristic.status, heuristic.support) == (Heuristic.Status.PROPOSED, 2)
    assert (heuristic.current_revision.polarity, heuristic.current_revision.task_id) == ("avoid", "airline")
    assert set(heuristic.evidence.values_list("trajectory_id", flat=True)) == {each.pk for each in runs}
    assert (run.episodes, run.notes, run.heuristics_proposed) == (3, 3, 1)


def test_note_seen_across_families_is_proposed_for_the_project() -> None:
    project = make_project()
    for family in ("airline", "retail", "banking", "telecom"):
        note(project, "Ask for the user id before anything else is looked up", task_id=family, score=0.9)

    consolidate(project)

    revision = Heuristic.objects.get().current_revision
    assert revision is not None
    assert (revision.scope, revision.task_id, revision.polarity) == ("project", "", "works")


def test_second_consolidation_adds_nothing() -> None:
    project = make_project()
    for number in range(3):
        note(project, f"In the next trial, I will open drawer {number}, take the mug and put it in the cabinet.")
    first = make_heuristic(project=project, guideline="Read the fare rules, then offer the change.", **HELP)
    make_heuristic(project=project, guideline="Read the fare rules and then offer the change.", **HELP)
    run = consolidate(project)
    before = state()

    again = consolidate(project, again=True)
    new_only = consolidate(project)

    assert state() == before
    assert run.heuristics_proposed + run.suggestions_made == 2
    assert (again.heuristics_proposed, again.suggestions_made, again.heuristics_supported) == (0, 0, 0)
    assert (new_only.heuristics_proposed, new_only.suggestions_made) == (0, 0)
    assert Suggestion.objects.get(kind=Kind.MERGE).other == first


def test_repetition_is_suggested_to_go_into_the_approved_lesson() -> None:
    project = make_project()
    make_heuristic(project=project, guideline="Read the fare rules, then offer the change.", **HELP)
    kept = make_heuristic(
        project=project,
        status=Heuristic.Status.APPROVED,
        guideline="Read the fare rules and then offer the change.",
        **HELP,
    )

    run = consolidate(project)

    suggestion = Suggestion.objects.get()
    assert (suggestion.kind, suggestion.other, suggestion.status) == (Kind.MERGE, kept, "open")
    assert (run.items_before, run.items_after) == (2, 1)
    assert run.tokens_after < run.tokens_before


def test_opposed_lessons_are_shown_as_a_contradiction_and_not_merged() -> None:
    project = make_project()
    make_heuristic(project=project, guideline="Offer the customer a refund in cash at once.", **HELP)
    make_heuristic(
        project=project,
        trigger="When a refund is asked for",
        guideline="Send the money back to the card.",
        avoid="Offering the customer a refund in cash at once.",
        polarity="avoid",
        task_id="airline",
    )

    consolidate(project)

    assert list(Suggestion.objects.values_list("kind", flat=True)) == [Kind.CONTRADICTION]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Merge only if the build is green.", "Merge even if the build is not green."),
        ("Retry a 429 after the time that `Retry-After` names.", "Do not retry a 429 after the time it names."),
        ("Refund within 24 hours of the booking.", "Refund within 48 hours of the booking."),
        ("Check the fare class before you cancel.", "Check the fare class after you cancel."),
        ("Keep rows with a score above 5.", "Keep rows with a score of at least 5."),
        ("Include the return flight in the price.", "Exclude the return flight from the price."),
        ("Offer the first flight of the day.", "Offer the last flight of the day."),
    ],
)
def test_lessons_of_which_only_one_can_hold_are_a_contradiction(one: str, other: str) -> None:
    project = make_project()
    make_heuristic(project=project, status=Heuristic.Status.APPROVED, guideline=one, **HELP)
    make_heuristic(project=project, status=Heuristic.Status.APPROVED, guideline=other, **HELP)

    consolidate(project)

    assert list(Suggestion.objects.values_list("kind", flat=True)) == [Kind.CONTRADICTION]


@pytest.mark.parametrize(
    "other",
    [
        "Read the price with `get_order` first.",
        "Read the fare with `get_flight` first.",
        "Ask Omar for the fare first.",
    ],
)
def test_lessons_about_other_things_in_the_same_sentence_are_left_alone(other: str) -> None:
    project = make_project()
    make_heuristic(project=project, guideline="Read the fare with `get_order` first.", **HELP)
    make_heuristic(project=project, guideline=other, **HELP)

    consolidate(project)

    assert not Suggestion.objects.exists()


def test_nothing_served_and_no_review_is_touched() -> None:
    project = make_project()
    for _ in range(2):
        make_heuristic(
            project=project, status=Heuristic.Status.APPROVED, guideline="Read the fare rules, then offer.", **HELP
        )
    before = list(HeuristicRevision.objects.order_by("pk").values())

    consolidate(project)

    assert Suggestion.objects.count() == 1
    assert list(HeuristicRevision.objects.order_by("pk").values()) == before
    assert not Review.objects.exists()


def test_failed_runs_alone_retire_no_lesson() -> None:
    """Their tasks may be hard: most of them may fail without the lesson too."""
    heuristic = make_heuristic(status=Heuristic.Status.APPROVED, **HELP)
    for _ in range(25):
        use(heuristic, outcome="failure")

    consolidate(heuristic.project)

    assert list(Suggestion.objects.values_list("kind", flat=True)) == []


@pytest.mark.parametrize(("together", "kinds"), [(0, [Kind.RETIRE]), (2, [])])
def test_lesson_that_does_harm_by_itself_is_to_be_retired(together: int, kinds: list[str]) -> None:
    heuristic = make_heuristic(status=Heuristic.Status.APPROVED, **HELP)
    use(heuristic, outcome="success")
    harm = {"since": "2026-01-01T00:00:00+00:00", "difference": -0.28, "low": -0.38, "high": -0.17}
    Heuristic.objects.filter(pk=heuristic.pk).update(harm=harm | {"together": together})

    consolidate(heuristic.project)

    assert list(Suggestion.objects.values_list("kind", flat=True)) == kinds


def test_lesson_that_fails_in_one_family_is_to_be_narrowed() -> None:
    heuristic = make_heuristic(status=Heuristic.Status.APPROVED, **HELP)
    for _ in range(3):
        use(heuristic, outcome="success")
        use(heuristic, outcome="failure", task_id="retail.returns")

    consolidate(heuristic.project)

    suggestion = Suggestion.objects.get()
    assert (suggestion.kind, suggestion.text["not_when"]) == (Kind.NARROW, "the task is of the kind retail returns")
    heuristic.refresh_from_db()
    assert heuristic.status == Heuristic.Status.APPROVED


def test_use_is_judged_from_the_linked_run() -> None:
    project = make_project()
    heuristic = make_heuristic(
        project=project,
        status=Heuristic.Status.APPROVED,
        trigger="about to call `cancel_reservation`",
        guideline="Call `get_reservation_details` first.",
    )
    revision = heuristic.current_revision
    assert revision is not None
    items = [{"heuristic": str(heuristic.pk), "revision": revision.number, "injected": True}]
    answer = make_retrieval(project=project, heuristic_ids=[heuristic.pk], items=items)
    make_trajectory(project=project, retrieval=answer, outcome="success", score=1.0)

    run = consolidate(project)

    verdict = UsageVerdict.objects.get()
    assert (verdict.verdict, verdict.step, run.verdicts) == ("followed", 1, 1)
    heuristic.refresh_from_db()
    assert heuristic.usefulness_basis["followed_success"] == 1


def test_twenty_new_runs_ask_for_a_consolidation_once(settings: Any) -> None:
    settings.ERL_CONSOLIDATE_EVERY = 3
    busy, quiet = make_project(), make_project()
    for _ in range(3):
        make_trajectory(project=busy)
    make_trajectory(project=quiet)

    first = request_due_consolidations()
    second = request_due_consolidations()

    assert [run.project for run in first] == [busy]
    assert second == []
    run_consolidation(first[0].pk, owner="test")
    assert request_due_consolidations() == []


def test_run_is_new_once_its_reflection_has_ended(settings: Any) -> None:
    settings.ERL_CONSOLIDATE_EVERY = 2
    project = make_project()
    waiting = [make_reflection(trajectory=make_trajectory(project=project)) for _ in range(2)]

    early = request_due_consolidations()
    run_reflection(waiting[0].pk, owner="test", make_reflector=ScriptedReflector(plan=propose()))
    half = request_due_consolidations()
    run_reflection(waiting[1].pk, owner="test", make_reflector=ScriptedReflector(plan=propose()))

    assert (early, half) == ([], [])
    assert [run.project for run in request_due_consolidations()] == [project]


def test_runs_reflected_on_after_a_consolidation_count_for_the_next(settings: Any) -> None:
    settings.ERL_CONSOLIDATE_EVERY = 1
    project = make_project()
    reflection = make_reflection(trajectory=make_trajectory(project=project))
    consolidate(project)

    run_reflection(reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=propose()))

    assert [run.project for run in request_due_consolidations()] == [project]


def test_taken_up_again_it_does_not_repeat_what_is_done() -> None:
    project = make_project()
    for _ in range(2):
        make_heuristic(project=project, guideline="Read the fare rules, then offer the change.", **HELP)
    wanted = request_consolidation(project, cause="command", by=BY)
    ConsolidationRun.objects.filter(pk=wanted.pk).update(
        result={"stages_done": ["begin", "judge", "distil", "compare"]}
    )

    run_consolidation(wanted.pk, owner="test")

    assert not Suggestion.objects.exists()


def test_held_by_one_it_is_not_taken_by_another() -> None:
    wanted = request_consolidation(make_project(), cause="command", by=BY)

    assert claim("consolidation", wanted.pk, owner="one") is not None
    assert claim("consolidation", wanted.pk, owner="two") is None
    assert request_consolidation(wanted.project, cause="command", by=BY).pk == wanted.pk


def test_many_lessons_take_no_more_queries_than_few(django_assert_max_num_queries: Any) -> None:
    project = make_project()
    for number in range(12):
        heuristic = make_heuristic(
            project=project, status=Heuristic.Status.APPROVED, guideline=f"Open door {'abcdefghijkl'[number]}."
        )
        make_evidence(heuristic=heuristic, trajectory=make_trajectory(project=project))
    consolidate(project)

    with django_assert_max_num_queries(95):
        consolidate(project, again=True)


def test_advice_without_a_condition_from_two_families_has_to_be_nearly_the_same() -> None:
    project = make_project()
    note(project, "The fare rules should be read before a change is offered to the customer")
    note(
        project,
        "The agent should read the fare rules before it offers a change to the customer",
        task_id="retail.returns",
    )

    consolidate(project)

    assert not Heuristic.objects.exists()
