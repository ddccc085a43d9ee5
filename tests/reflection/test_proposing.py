"""What a lesson comes to where the project knows something like it already."""

from typing import Any

import pytest

from memory.after_commit import DeferredCall
from memory.curation.decisions import quarantine_heuristic, reject_heuristic
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.runs.episode import Episode
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.nearest import find_near_heuristics
from reflection.reflectors.reflections import run_reflection
from tests.factories import approve_as_read, make_heuristic, make_project, make_reflection, make_trajectory
from tests.reflection.scripted import ScriptedReflector, make_lesson, propose

pytestmark = pytest.mark.django_db

BY = Actor(label="user:ana")
Effect = Proposal.Effect


def reflect(project: Any, *lessons: ProposedLesson) -> list[Proposal]:
    """Let a new run of the project teach these lessons."""
    reflection = make_reflection(trajectory=make_trajectory(project=project))
    run_reflection(reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=propose(*lessons)))
    assert Reflection.objects.get(pk=reflection.pk).status == Reflection.Status.DONE
    embed_heuristics(Heuristic.objects.values_list("pk", flat=True))  # as the commit would do
    return list(reflection.proposals.order_by("ordinal"))


def test_same_words_from_another_run_add_support() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson())

    [second] = reflect(project, make_lesson())

    heuristic = Heuristic.objects.get()
    assert (first.effect, second.effect) == (Effect.NEW, Effect.SUPPORT)
    assert second.heuristic == heuristic
    assert heuristic.support == 2


def test_same_words_ignore_case_spaces_and_punctuation() -> None:
    project = make_project()
    reflect(project, make_lesson("A refund is asked for", "Read the fare class first."))

    [again] = reflect(project, make_lesson("a  refund is asked for:", "Read the FARE class first"))

    assert (again.effect, again.similarity) == (Effect.SUPPORT, 1.0)


@pytest.mark.parametrize("reads_near", [True, False])
def test_what_is_near_is_searched_for_those_who_read_it(reads_near: bool) -> None:
    project = make_project()
    reflect(project, make_lesson())
    reflection = make_reflection(trajectory=make_trajectory(project=project))
    reflector = ScriptedReflector(plan=propose(), reads_near=reads_near)

    run_reflection(reflection.pk, owner="test", make_reflector=reflector)

    assert [bool(near) for near in reflector.near] == [reads_near]


def test_new_lesson_is_embedded_once(django_capture_on_commit_callbacks: Any) -> None:
    reflection = make_reflection()

    with django_capture_on_commit_callbacks() as callbacks:
        run_reflection(reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=propose(make_lesson())))

    assert [callback.function for callback in callbacks if isinstance(callback, DeferredCall)].count(
        embed_heuristics
    ) == 1


def test_same_run_again_adds_no_support() -> None:
    trajectory = make_trajectory()
    for _ in range(2):
        reflection = make_reflection(trajectory=trajectory)
        run_reflection(reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=propose(make_lesson())))

    assert Heuristic.objects.get().support == 1


def test_same_words_in_another_project_are_new() -> None:
    reflect(make_project(), make_lesson())

    [proposal] = reflect(make_project(), make_lesson())

    assert proposal.effect == Effect.NEW


def test_same_words_for_another_task_family_propose_a_merge() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson())

    [second] = reflect(project, make_lesson(task_id="hotel.cancel"))

    assert second.effect == Effect.MERGE
    assert second.near == first.heuristic
    assert second.heuristic != first.heuristic


def test_same_words_of_a_project_wide_lesson_add_support() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson(scope="project", task_id=""))

    [second] = reflect(project, make_lesson(task_id="hotel.cancel"))

    assert (second.effect, second.heuristic) == (Effect.SUPPORT, first.heuristic)


def test_same_words_of_what_is_served_add_support_while_a_new_wording_waits() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson())
    approve_as_read(first.heuristic, by=BY)
    HeuristicRevision.objects.filter(heuristic=first.heuristic).get(served=True)

    [second] = reflect(project, make_lesson())

    assert second.effect == Effect.SUPPORT
    assert Heuristic.objects.get().status == Heuristic.Status.APPROVED


@pytest.mark.parametrize("refuse", [reject_heuristic, quarantine_heuristic])
def test_same_words_of_a_refused_lesson_do_not_come_back(refuse: Any) -> None:
    project = make_project()
    [first] = reflect(project, make_lesson())
    refused = refuse(first.heuristic, by=BY, reason="Wrong.")

    [second] = reflect(project, make_lesson())

    heuristic = Heuristic.objects.get()
    assert (second.effect, heuristic.status) == (Effect.SUPPORT, refused.status)
    assert heuristic.support == 2


def test_lesson_of_one_reflection_said_twice_is_proposed_once() -> None:
    proposals = reflect(make_project(), make_lesson(), make_lesson())

    assert [proposal.effect for proposal in proposals] == [Effect.NEW, Effect.SUPPORT]
    assert Heuristic.objects.get().support == 1


def test_lesson_the_reflector_calls_covered_adds_support() -> None:
    known = make_heuristic(trajectory=make_trajectory())

    [proposal] = reflect(known.project, make_lesson(covers_existing=known.pk))

    known.refresh_from_db()
    assert (proposal.effect, proposal.heuristic) == (Effect.SUPPORT, known)
    assert known.support == 2


def test_lesson_said_to_be_covered_by_another_projects_is_new() -> None:
    foreign = make_heuristic()

    [proposal] = reflect(make_project(), make_lesson(covers_existing=foreign.pk))

    foreign.refresh_from_db()
    assert proposal.effect == Effect.NEW
    assert foreign.support == 0


@pytest.mark.parametrize(
    "guideline",
    [
        "Never read the fare class with get_reservation_details before cancel_reservation.",
        "Read the fare class with get_user_details before cancel_reservation.",
        "Read the fare class with get_reservation_details after cancel_reservation.",
    ],
)
def test_model_that_names_what_its_lesson_contradicts_adds_no_support(guideline: str) -> None:
    project = make_project()
    [first] = reflect(project, make_lesson())

    [second] = reflect(project, make_lesson(guideline=guideline, covers_existing=first.heuristic_id))

    assert (second.effect == Effect.SUPPORT, Heuristic.objects.count()) == (False, 2)


KEEP_AIRPORTS = (
    "When a customer who changes a reservation asks for flights to or from another airport, one near home for example",
    (
        "Compare the wish with origin and destination from get_reservation_details. If it differs, say that the "
        "booked airports stay, and offer only what search_onestop_flight finds between them. Before "
        "update_reservation_flights check that the first leg starts and the last one ends at the booked airports."
    ),
)
KEEP_AIRPORTS_AGAIN = (
    "When a customer who changes a reservation asks for the same trip to or from another airport of the same city",
    (
        "Read origin and destination from get_reservation_details. Say that the booked airports stay, and offer only "
        "what search_direct_flight finds between them. Before update_reservation_flights check that each direction "
        "starts and ends at the booked airports."
    ),
)


def test_long_lesson_that_repeats_another_stands_in_its_row_with_what_differs() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson(*KEEP_AIRPORTS))

    [second] = reflect(project, make_lesson(*KEEP_AIRPORTS_AGAIN, covers_existing=first.heuristic_id))
    [third] = reflect(project, make_lesson(*KEEP_AIRPORTS_AGAIN))

    assert (second.effect, second.near) == (Effect.GROUP, first.heuristic)
    [doubt] = [finding["message"] for finding in second.findings if finding["code"] == "may_repeat"]
    assert "one names “search_onestop_flight”, the other “search_direct_flight”" in doubt
    assert third.effect == Effect.SUPPORT
    assert Heuristic.objects.filter(leader=None).count() == 1


def test_long_lesson_that_says_the_opposite_stands_in_no_row_of_another() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson(*KEEP_AIRPORTS))
    trigger, guideline = KEEP_AIRPORTS

    never = guideline.replace(
        "Before update_reservation_flights check", "Before update_reservation_flights never check"
    )
    [second] = reflect(project, make_lesson(trigger, never, covers_existing=first.heuristic_id))

    assert (second.effect, second.near) == (Effect.MERGE, first.heuristic)


def test_signs_are_no_punctuation() -> None:
    project = make_project()
    reflect(project, make_lesson("A row is read", "Keep it if `a > 1`."))

    [second] = reflect(project, make_lesson("A row is read", "Keep it if `a >= 1`."))

    assert second.effect != Effect.SUPPORT


def test_nearly_the_same_lesson_adds_support() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson())

    reworded = "Read the fare class with get_reservation_details before calling cancel_reservation."
    [second] = reflect(project, make_lesson(guideline=reworded))

    assert second.similarity is not None
    assert second.similarity >= 0.97
    assert (second.effect, second.heuristic) == (Effect.SUPPORT, first.heuristic)


def test_nearly_the_same_lesson_of_other_polarity_proposes_a_merge() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson())

    reworded = "Read the fare class with get_reservation_details before calling cancel_reservation."
    [second] = reflect(project, make_lesson(guideline=reworded, polarity="works"))

    assert (second.effect, second.near) == (Effect.MERGE, first.heuristic)


def test_similar_lesson_proposes_a_merge() -> None:
    project = make_project()
    [first] = reflect(project, make_lesson())

    similar = make_lesson(
        "Cancellation of a basic economy reservation is requested",
        "Check the fare class using get_reservation_details, then decide about cancel_reservation.",
    )
    [second] = reflect(project, similar)

    assert second.similarity is not None
    assert 0.90 <= second.similarity < 0.97
    assert (second.effect, second.near) == (Effect.MERGE, first.heuristic)


def test_other_lesson_is_new() -> None:
    project = make_project()
    reflect(project, make_lesson())

    [other] = reflect(project, make_lesson("A page of search results is empty", "Loosen one filter and search again."))

    assert (other.effect, other.near, other.similarity) == (Effect.NEW, None, None)


def test_similar_lesson_without_an_embedder_is_new(settings: Any) -> None:
    from memory.embeddings.registry import get_embedder

    settings.ERL_EMBEDDER = "none"
    get_embedder.cache_clear()
    project = make_project()
    try:
        reflect(project, make_lesson())
        reworded = "Read the fare class with get_reservation_details before calling cancel_reservation."
        [second] = reflect(project, make_lesson(guideline=reworded))
    finally:
        settings.ERL_EMBEDDER = "minilm"
        get_embedder.cache_clear()

    assert second.effect == Effect.NEW


def test_near_heuristics_are_found_by_meaning_closest_first() -> None:
    project = make_project()
    close = make_heuristic(
        project=project, trigger="Somebody wants a ticket refunded", guideline="Read the fare rules."
    )
    make_heuristic(project=project, trigger="A web shop shows no results", guideline="Use fewer words.")
    embed_heuristics(Heuristic.objects.values_list("pk", flat=True))

    near = find_near_heuristics(project, Episode(task="The customer asks for her money back for a cancelled flight."))

    assert near[0].id == close.pk
    assert near[0].similarity > 0.3


def test_lessons_of_the_family_are_near_though_its_tasks_share_no_word() -> None:
    """Tasks of a web shop ask for bacon or for shoes, and what is learnt is about its buttons."""
    project = make_project()
    of_shop = make_heuristic(
        project=project, trigger="A search shows no offer that fits", guideline="Click Next.", task_id="webshop"
    )
    make_heuristic(project=project, trigger="A reservation is changed", guideline="Ask first.", task_id="airline")
    embed_heuristics(Heuristic.objects.values_list("pk", flat=True))

    near = find_near_heuristics(project, Episode(task="I need gluten free bacon in a pack of 2.", task_id="webshop"))

    assert [lesson.id for lesson in near] == [of_shop.pk]


@pytest.mark.parametrize("status", [Heuristic.Status.REJECTED, Heuristic.Status.RETIRED, Heuristic.Status.QUARANTINED])
def test_near_heuristics_leave_out_what_is_decided_against(status: str) -> None:
    project = make_project()
    make_heuristic(project=project, status=status, trigger="Somebody wants a refund", guideline="Read the fare rules.")
    embed_heuristics(Heuristic.objects.values_list("pk", flat=True))

    assert find_near_heuristics(project, Episode(task="A refund is asked for")) == ()


def test_near_heuristics_without_an_embedder_are_found_by_words(settings: Any) -> None:
    from memory.embeddings.registry import get_embedder

    settings.ERL_EMBEDDER = "none"
    get_embedder.cache_clear()
    known = make_heuristic(trigger="Somebody wants a ticket refunded", guideline="Read the fare rules.")
    try:
        near = find_near_heuristics(known.project, Episode(task="Refund the ticket, please! (it's urgent) & or | not"))
    finally:
        settings.ERL_EMBEDDER = "minilm"
        get_embedder.cache_clear()

    assert [each.id for each in near] == [known.pk]
