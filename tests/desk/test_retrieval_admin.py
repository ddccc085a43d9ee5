"""The admin's pages of answers."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.models import PolarityQuota, Retrieval
from memory.retrieval.question import Question
from memory.trust.quarantine import quarantine_source
from tests.factories import make_heuristic, make_project, make_trajectory

pytestmark = pytest.mark.django_db
TASK = "Cancel the flight <b>now</b>"


SUBJECTS = ["voucher", "refund", "hotel", "luggage", "seat", "visa", "child", "wheelchair", "dog", "meal", "upgrade"]


def serve(project: Project, count: int = 1) -> list[Heuristic]:
    made = [
        make_heuristic(
            project=project,
            status="approved",
            trigger=f"Cancel the flight: {subject}",
            guideline=f"Check the {subject}.",
        )
        for subject in SUBJECTS[:count]
    ]
    embed_heuristics([heuristic.pk for heuristic in made])
    return made


def ask(project: Project, **options: Any) -> RetrievalAnswer:
    return retrieve(Question(project=project, task=TASK, by=Actor(label="test"), **options))


def page(admin_client: Client, answer: RetrievalAnswer) -> str:
    response = admin_client.get(reverse("admin:memory_retrieval_change", args=[answer.retrieval_id]))
    assert response.status_code == 200
    return response.content.decode()


def test_page_says_that_a_quarantine_order_covers_words_of_the_answer(admin_client: Client) -> None:
    project = make_project()
    lesson, _ = serve(project, 2)
    Heuristic.objects.filter(pk=lesson.pk).update(client="mallory")
    answer = ask(project)
    before = page(admin_client, answer)
    since = timezone.now() - timedelta(hours=1)
    order = quarantine_source(project, client="mallory", since=since, by=Actor(label="user:ops")).order

    after = page(admin_client, answer)

    link = reverse("admin:memory_quarantineorder_change", args=[order.pk])
    assert link not in before
    assert f'<a href="{link}">quarantine order</a> covers words of this answer' in after


def test_page_shows_the_answer_and_the_injected_bytes(admin_client: Client) -> None:
    project = make_project()
    serve(project, 3)
    answer = ask(project, top_k=2)
    make_trajectory(project=project, outcome="success", retrieval=Retrieval.objects.get(pk=answer.retrieval_id))
    html = page(admin_client, answer)
    assert "This is byte for byte what the agent was given" in html
    assert "&lt;lessons&gt;" in html
    assert "Cancel the flight &lt;b&gt;now&lt;/b&gt;" in html
    assert html.count('class="rank"') == 2
    assert "Considered but not chosen" in html
    assert 'class="outcome outcome-success"' in html


def test_page_of_an_answer_whose_lesson_is_gone_says_so(admin_client: Client) -> None:
    project = make_project()
    serve(project)
    answer = ask(project)
    Retrieval.objects.update(items=[Retrieval.objects.get().items[0] | {"revision": 99}])
    html = page(admin_client, answer)
    assert "not exactly what the agent was given" in html
    assert "This lesson was erased." in html


def test_page_shows_where_a_task_was_cut(admin_client: Client) -> None:
    project = make_project()
    run = make_trajectory(project=project, task=f"{TASK} " + "and say so to the customer " * 20)
    lesson = make_heuristic(project=project, trajectory=run, status="approved", trigger="a flight is cancelled")
    embed_heuristics([lesson.pk])
    answer = ask(project)
    assert f"Most similar earlier task: {escape(run.task[:119].rstrip())}…" in page(admin_client, answer)
    assert run.task[:40] not in json.dumps(Retrieval.objects.get().items), "a copy outlives its erasure"


def test_quota_is_a_share(admin_client: Client) -> None:
    url = reverse("admin:memory_polarityquota_add")
    wanted = {"project": str(make_project().pk), "task_id": "search", "max_works_share": "3", "max_avoid_share": ""}
    assert b"less than or equal to 1" in admin_client.post(url, wanted).content
    assert admin_client.post(url, wanted | {"max_works_share": "0"}).status_code == 302
    assert list(PolarityQuota.objects.values_list("max_works_share", "max_avoid_share")) == [(0, None)]


def test_page_of_a_degraded_answer_says_what_was_missing(admin_client: Client) -> None:
    project = make_project()
    serve(project)
    assert "Not available: language model (not configured)." in page(admin_client, ask(project, mode="erl"))


def test_pages_cost_the_same_however_much_they_show(
    admin_client: Client, django_assert_max_num_queries: Any, django_assert_num_queries: Any
) -> None:
    project = make_project()
    serve(project, 3)
    few = ask(project, top_k=1)
    serve(project, 7)
    many = ask(project, top_k=5)
    page(admin_client, few)  # what a process remembers, it asks for once
    for answer in (few, many):
        row = Retrieval.objects.get(pk=answer.retrieval_id)
        for _ in range(3 if answer is many else 1):
            make_trajectory(project=project, outcome="success", retrieval=row)
    with django_assert_max_num_queries(13) as counted:  # one of them for the choice of a project
        page(admin_client, few)
    with django_assert_num_queries(len(counted)):
        page(admin_client, many)
    with django_assert_max_num_queries(12):
        html = admin_client.get(reverse("admin:memory_retrieval_outcomes")).content.decode()
    assert "100%" in html
    assert "The baseline, runs that were given no lesson: <strong>–</strong>" in html


def test_people_see_the_answers_of_their_own_projects_alone(client: Client, django_user_model: Any) -> None:
    project = make_project()
    serve(project)
    answer = ask(project)
    stranger = django_user_model.objects.create_user("stranger", password="x", is_staff=True)
    stranger.user_permissions.add(*_permissions("view_retrieval"))
    client.force_login(stranger)
    assert client.get(reverse("admin:memory_retrieval_change", args=[answer.retrieval_id])).status_code == 302
    html = client.get(reverse("admin:memory_retrieval_outcomes")).content.decode()
    assert "No answers in these" in html


def _permissions(*codenames: str) -> Any:
    from django.contrib.auth.models import Permission

    return Permission.objects.filter(codename__in=codenames)
