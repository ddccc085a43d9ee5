"""What is shown of how well searches by an index find: on the home page, in a list, to Prometheus."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.projects.models import Project
from memory.retrieval.models import EmbeddingModel, SearchIndex
from tests.erl_site.test_metrics import scrape
from tests.factories import make_member, make_project

pytestmark = pytest.mark.django_db

LABEL = "search recall"


def make_index(project: Project, **measured: Any) -> SearchIndex:
    model, _ = EmbeddingModel.objects.get_or_create(id="test", defaults={"dimensions": 2})
    filled = {"texts": 20_000, "breadth": 200, "build_seconds": 1.0, "measured_at": timezone.now(), **measured}
    return SearchIndex.objects.create(name=f"i_{project.slug}", project=project, embedding_model=model, **filled)


def log_in(project: Project, name: str = "ana") -> Client:
    client = Client()
    client.force_login(make_member(name, project=project, role="auditor", permissions=("view_retrieval",)))
    return client


def read_figure(client: Client) -> Any:
    return next(figure for figure in client.get("/admin/").context["figures"] if figure.label == LABEL)


def test_home_page_says_that_everything_is_compared_where_there_is_no_index() -> None:
    figure = read_figure(log_in(make_project()))
    assert (figure.value, figure.note) == ("100%", "exact search: every lesson is compared")


def test_home_page_shows_the_project_that_is_worst_off_and_no_other_ones() -> None:
    project, foreign = make_project(), make_project()
    client = log_in(project)
    make_index(project, recall_mean=0.97, recall_least=0.45, recall_tasks=20)
    make_index(foreign, recall_mean=0.5, recall_least=0.1, recall_tasks=20)

    figure = read_figure(client)
    assert (figure.value, figure.alarming) == ("97.0%", True)
    assert figure.note.startswith("45.0% in the worst of 20 tasks, ")
    shown = client.get(figure.link).content.decode()
    assert "97.0%" in shown
    assert "50.0%" not in shown


def test_index_that_was_not_measured_yet_says_so() -> None:
    project = make_project()
    index = make_index(project, measured_at=None)
    figure = read_figure(log_in(project))
    assert (figure.value, figure.note, figure.alarming) == ("–", "not measured yet", False)
    page = log_in(make_project(), "eve").get(reverse("admin:memory_searchindex_change", args=[index.pk]))
    assert page.status_code == 302


def test_prometheus_is_given_the_recall_of_each_project() -> None:
    project = make_project()
    make_index(project, recall_mean=0.97, recall_least=0.45, recall_tasks=20)
    make_index(make_project(), measured_at=None)
    figures = scrape()
    assert figures["erl_search_recall_mean", project.slug] == 0.97
    assert figures["erl_search_recall_least", project.slug] == 0.45
    assert 0 <= figures["erl_search_recall_age_seconds", project.slug] < 60
    assert sum(name == "erl_search_recall_mean" for name, *_ in figures) == 1
