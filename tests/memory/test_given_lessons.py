"""Which of the lessons that fit are given: a few good ones, that the agent has the tools for, while they hold."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.index.heuristic_vectors import embed_heuristics
from memory.limits import DEFAULT_TOP_K
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.models import Retrieval
from memory.retrieval.question import Question
from memory.retrieval.snapshot import snapshots
from tests.factories import make_heuristic, make_project, make_trajectory

pytestmark = pytest.mark.django_db
BY = Actor(label="test")
TASK = "The passenger wants to cancel a basic economy flight"
TOOLS = ["get_reservation_details", "cancel_reservation", "calculate"]


def serve(project: Project, trigger: str = TASK, **text: Any) -> Heuristic:
    lesson = make_heuristic(project=project, status="approved", trigger=trigger, **text)
    embed_heuristics([lesson.pk])
    return lesson


def ask(project: Project, **options: Any) -> RetrievalAnswer:
    asked: dict[str, Any] = {"project": project, "task": TASK, "by": BY, "record": False}
    return retrieve(Question(**asked | options))


def given(answer: RetrievalAnswer) -> set[str]:
    return {item["id"] for item in answer.items}


def reasons(answer: RetrievalAnswer) -> list[str]:
    return [item["passed_over"] for item in answer.considered]


@pytest.fixture(params=[0, 64])
def memory_mb(request: pytest.FixtureRequest, settings: Any) -> Iterator[int]:
    """Search in the database alone, and in this process's memory."""
    settings.ERL_RETRIEVE_MEMORY_MB = request.param
    snapshots.clear()
    yield request.param
    snapshots.wait()
    snapshots.clear()


def test_a_lesson_far_behind_the_best_is_listed_and_not_given() -> None:
    project = make_project()
    best = serve(project)
    serve(project, "A traveller has lost a suitcase at the airport", guideline="Call the gate.")
    answer = ask(project)
    assert (given(answer), reasons(answer)) == ({str(best.pk)}, ["It is much less relevant than the best lesson."])


def test_at_most_the_usual_number_of_lessons_is_given() -> None:
    project = make_project()
    for number in range(DEFAULT_TOP_K + 2):
        serve(project, guideline=f"Check rule {number} of the fare.")
    assert len(ask(project).items) == DEFAULT_TOP_K


def test_a_lesson_that_names_a_missing_tool_is_not_given() -> None:
    project = make_project()
    make_trajectory(project=project, tools=TOOLS)
    there = serve(project, guideline="Call `get_reservation_details` first.")
    serve(project, guideline="Call cancel_reservation at once.")
    serve(project, guideline="Work it out with `calculate`.")
    answer = ask(project, tools=("get_reservation_details", "search_flights"))
    assert given(answer) == {str(there.pk)}
    assert sorted(reasons(answer)) == [
        "It names a tool that the agent does not have: calculate.",
        "It names a tool that the agent does not have: cancel_reservation.",
    ]
    assert {item.get("passed_over") for item in Retrieval.objects.get(pk=answer.retrieval_id).items} > {None}


def test_answer_that_depends_on_runs_is_not_kept_past_a_new_run(memory_mb: int) -> None:
    project = make_project()
    lesson = serve(project, guideline="Call cancel_reservation at once.")
    before = given(ask(project, tools=("search_flights",)))
    make_trajectory(project=project, tools=TOOLS)
    assert (before, given(ask(project, tools=("search_flights",)))) == ({str(lesson.pk)}, set())


@pytest.mark.parametrize(
    "offered", ["mcp__airline__cancel_reservation", "airline.cancel_reservation", "airline_cancel_reservation"]
)
def test_a_tool_counts_with_and_without_its_server_in_front(offered: str) -> None:
    project = make_project()
    make_trajectory(project=project, tools=[*TOOLS, offered])
    bare = serve(project, guideline="Call `cancel_reservation` at once.")
    prefixed = serve(project, guideline=f"Call `{offered}` only when asked.")
    both = {str(bare.pk), str(prefixed.pk)}
    assert [given(ask(project, tools=(tool,))) for tool in (offered, "cancel_reservation")] == [both, both]


def test_a_tool_of_the_same_name_on_another_server_is_another_tool() -> None:
    project = make_project()
    make_trajectory(project=project, tools=["github.search_issues"])
    serve(project, guideline="Call `github.search_issues` first.")
    assert given(ask(project, tools=("jira.search_issues", "reservation"))) == set()


def test_an_answer_to_nobody_in_particular_is_not_that_of_an_agent() -> None:
    project = make_project()
    make_trajectory(project=project, agent="clerk", tools=TOOLS)
    make_trajectory(project=project, agent="guide", tools=["search_flights"])
    lesson = serve(project, guideline="Call cancel_reservation at once.")
    assert [given(ask(project, agent=agent)) for agent in ("", "guide")] == [{str(lesson.pk)}, set()]


def test_a_server_whose_tools_are_unknown_may_have_any_tool() -> None:
    project = make_project()
    make_trajectory(project=project, agent="guide", tools=["cancel_reservation"])
    make_trajectory(
        project=project, agent="clerk", tools=["search_flights", {"type": "mcp", "server_label": "airline"}]
    )
    lesson = serve(project, guideline="Call cancel_reservation at once.")
    assert given(ask(project, agent="clerk")) == {str(lesson.pk)}


def test_a_lesson_that_advises_against_a_missing_tool_is_given() -> None:
    project = make_project()
    make_trajectory(project=project, tools=TOOLS)
    lesson = serve(project, guideline="Ask a person.", avoid="Calling cancel_reservation.")
    assert given(ask(project, tools=())) == {str(lesson.pk)}


def test_a_name_that_no_run_knows_as_a_tool_keeps_no_lesson_back() -> None:
    project = make_project()
    make_trajectory(project=project, tools=TOOLS)
    lesson = serve(project, guideline="Write `basic_economy` into fare_class.")
    assert given(ask(project, tools=("search_flights",))) == {str(lesson.pk)}


def test_the_newest_runs_of_the_agent_say_which_tools_it_has() -> None:
    project = make_project()
    make_trajectory(
        project=project, agent="clerk", tools=[{"type": "function", "function": {"name": name}} for name in TOOLS]
    )
    make_trajectory(project=project, agent="guide", tools=["search_flights"])
    lesson = serve(project, guideline="Call cancel_reservation at once.")
    assert [given(ask(project, agent=agent)) for agent in ("clerk", "guide", "stranger")] == [
        {str(lesson.pk)},
        set(),
        {str(lesson.pk)},
    ]


@pytest.mark.django_db(transaction=True)
def test_a_lesson_goes_out_of_service_by_itself(memory_mb: int) -> None:
    project = make_project()
    ends = timezone.now() + timedelta(hours=1)
    lesson, stays = serve(project, valid_until=ends), serve(project, guideline="Ask for the booking.")
    assert (snapshots.load(project.pk) is not None) == (memory_mb > 0)
    assert given(ask(project)) == {str(lesson.pk), str(stays.pk)}
    assert given(ask(project, as_of=ends + timedelta(seconds=1))) == {str(stays.pk)}
    end_now(lesson)
    assert given(ask(project)) == {str(stays.pk)}
    assert Heuristic.objects.filter(revisions__in=HeuristicRevision.objects.served(), pk=lesson.pk).count() == 0


def test_a_replay_leaves_out_what_was_approved_later() -> None:
    project = make_project()
    serve(project)
    assert ask(project, as_of=datetime(2020, 1, 1, tzinfo=UTC)).items == []
    assert len(ask(project).items) == 1


def test_how_long_a_lesson_holds_is_part_of_what_is_approved() -> None:
    hashes = {
        make_heuristic(**ends).revisions.get().content_sha256
        for ends in ({}, {"valid_until": datetime(2030, 1, 1, tzinfo=UTC)}, {"expires_after": timedelta(days=1)})
    }
    assert len(hashes) == 3


def end_now(lesson: Heuristic) -> None:
    """Let the time of a lesson be over, as if the clock had gone on: a wording itself never changes."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        HeuristicRevision.objects.filter(heuristic=lesson).update(valid_until=timezone.now() - timedelta(hours=1))
        cursor.execute("SET LOCAL session_replication_role = origin")
