"""A run as people read it in the admin."""

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from desk.runs.conversation import read_steps
from memory.effects.models import HeuristicFeedback
from memory.runs.models import Trajectory
from memory.runs.steps import make_step
from tests.factories import make_evidence, make_heuristic, make_project, make_retrieval, make_trajectory

pytestmark = pytest.mark.django_db


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


STEPS = [
    make_step(index=1, thought="Look.", action=call("search", q="Fare 7"), observation="x" * 5_000 + " fare found"),
    make_step(index=2, action=call("respond", content="It is <b>gone</b>."), observation="Thanks."),
    make_step(index=3, action=call("book"), error="KeyError: fare"),
]


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(get_user_model().objects.create_superuser("ana"))
    return client


def path(trajectory: Trajectory) -> str:
    return f"/admin/memory/trajectory/{trajectory.pk}/change/"


def read(reader: Client, trajectory: Trajectory, **query: str) -> str:
    response = reader.get(path(trajectory), query)
    assert response.status_code == 200
    return response.content.decode()


def test_steps_are_a_conversation_with_long_answers_folded(reader: Client) -> None:
    page = read(reader, make_trajectory(steps=STEPS))

    assert "Calls <code>search</code>" in page
    assert "Calls <code>respond</code>" not in page  # what it says is speech
    assert "It is &lt;b&gt;gone&lt;/b&gt;." in page
    assert "<details><summary>5011 characters: xxx" in page
    assert "Calls <code>book</code>" in page
    assert 'Errors in <a href="#step-3">step 3</a>' in page


def test_lesson_from_several_steps_is_listed_once(reader: Client) -> None:
    trajectory = make_trajectory(steps=STEPS)
    heuristic = make_heuristic(project=trajectory.project, trigger="A fare is asked for")
    for step in (1, 3):
        make_evidence(heuristic=heuristic, trajectory=trajectory, first_step=step, last_step=step)

    page = read(reader, trajectory)

    assert page.count("A fare is asked for</a>") == 1
    assert [f'#step-{step}">step {step}</a>' in page for step in (1, 3)] == [True, True]


def test_search_marks_opens_and_counts(reader: Client) -> None:
    page = read(reader, make_trajectory(steps=STEPS), q="FARE")

    assert page.count("<mark>") == 3
    assert "<mark>Fare</mark> 7" in page
    assert "<details open>" in page
    assert "occurs in 2 of 3 steps" in page
    assert '<details class="neighbour"><summary>Step 2' in page


def test_outline_of_a_searched_run_is_whole() -> None:
    run = make_trajectory(steps=[make_step(index=1, thought="Ask about the fare, please.")])

    (step,) = read_steps(run, cited=[], query="a")

    assert step.gist == "Ask about the fare, please."


def test_search_that_finds_nothing_says_so(reader: Client) -> None:
    page = read(reader, make_trajectory(steps=STEPS), q="<i>")

    assert "“&lt;i&gt;” does not occur in any step." in page
    assert "<mark>" not in page


def test_only_what_the_lesson_cites_is_marked(reader: Client) -> None:
    trajectory = make_trajectory(steps=STEPS)
    cited, other = make_heuristic(project=trajectory.project), make_heuristic(project=trajectory.project)
    make_evidence(heuristic=cited, trajectory=trajectory, first_step=2, last_step=2, quote="It is")
    make_evidence(heuristic=other, trajectory=trajectory, first_step=3, last_step=3)

    page = read(reader, trajectory, lesson=str(cited.pk))

    assert page.count('class="turn cited') == 1
    assert "Opened from the lesson" in page
    assert 'starting at <a href="#step-2">step 2</a>' in page
    assert "<blockquote>It is</blockquote>" in page
    assert read(reader, trajectory).count('class="turn cited') == 2


def test_lessons_it_was_given_carry_their_outcomes(reader: Client) -> None:
    project = make_project()
    lesson = make_heuristic(project=project, status="approved", trigger="a refund is asked for")
    retrieval = make_retrieval(project=project, heuristic_ids=[lesson.pk])
    trajectory = make_trajectory(project=project, retrieval=retrieval, outcome="success", score=1)
    for outcome in ("success", "failure"):
        make_trajectory(project=project, retrieval=retrieval, outcome=outcome)
    HeuristicFeedback.objects.create(
        project=project, heuristic=lesson, trajectory=trajectory, verdict="followed", client="agent"
    )

    page = read(reader, trajectory)

    assert "a refund is asked for" in page
    assert "Followed in this run · of all runs given it, 2 succeeded and 1 failed" in page


def test_number_of_queries_does_not_grow(reader: Client) -> None:
    def count(lessons: int) -> int:
        project = make_project()
        given = [make_heuristic(project=project, status="approved").pk for _ in range(lessons)]
        retrieval = make_retrieval(project=project, heuristic_ids=given)
        trajectory = make_trajectory(project=project, retrieval=retrieval, steps=STEPS)
        for _ in range(lessons):
            make_evidence(heuristic=make_heuristic(project=project), trajectory=trajectory)
        with CaptureQueriesContext(connection) as queries:
            read(reader, trajectory)
        return len(queries)

    count(1)  # fills caches
    assert count(1) == count(6)


def test_download_is_the_whole_run(reader: Client) -> None:
    trajectory = make_trajectory(steps=STEPS, task="Ütask", agent="bot")

    response = reader.get(f"/admin/memory/trajectory/{trajectory.pk}/trajectory.json")

    body: dict[str, Any] = json.loads(response.content)
    assert (body["task"], body["agent"], len(body["steps"])) == ("Ütask", "bot", 3)
    assert "attachment" in response.headers["Content-Disposition"]


def test_those_who_may_not_see_runs_get_neither_page_nor_download(client: Client) -> None:
    client.force_login(get_user_model().objects.create_user("eve", is_staff=True))
    trajectory = make_trajectory()

    assert client.get(path(trajectory)).status_code in (302, 403)
    assert client.get(f"/admin/memory/trajectory/{trajectory.pk}/trajectory.json").status_code in (403, 404)


def test_address_without_a_run_leads_back(reader: Client) -> None:
    assert reader.get("/admin/memory/trajectory/nonsense/change/").status_code == 302
