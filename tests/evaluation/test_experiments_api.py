"""/api/v1/experiments and /api/v1/uplift."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from evaluation.experiments.models import Experiment
from evaluation.reports.experiments import describe_experiment
from memory.projects.models import Project
from memory.releases.models import Release
from tests.api.conftest import make_client
from tests.evaluation.experiment_rows import Traffic, make_deployed, make_experiment
from tests.factories import make_api_key

pytestmark = pytest.mark.django_db
URL, UPLIFT = "/api/v1/experiments", "/api/v1/uplift"


@pytest.fixture
def deployed() -> tuple[Project, Release]:
    return make_deployed()


@pytest.fixture
def api(deployed: tuple[Project, Release]) -> APIClient:
    return make_client(make_api_key(project=deployed[0]).token)


def client_of(experiment: Experiment, **options: Any) -> APIClient:
    return make_client(make_api_key(project=experiment.project, **options).token)


def test_experiment_starts_with_its_canary(api: APIClient) -> None:
    response = api.post(URL, {"release": "2", "max_units": 800})

    assert response.status_code == 201, response.content
    body = response.json()
    assert response["Location"] == f"{URL}/1"
    assert (body["status"], body["treated_release"], body["control_release"]) == ("running", 2, 1)
    assert body["steps"][0] == {"percent": 1.0, "units": 20}
    assert body["sentence"] == "Nothing is known about Release 2 yet: no outcome has come in."
    assert api.get("/api/v1/deployment").json()["canary_percent"] == 1.0


def test_experiment_is_read_with_its_looks() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment, base=0.3, lift=0.4).send(300)
    api = client_of(experiment)

    look = api.post(f"{URL}/1/looks")
    body = api.get(f"{URL}/1").json()

    assert look.status_code == 201
    assert body["sentence"].startswith("Release 2 helps: +")
    assert [each["number"] for each in body["looks"]] == [1]
    assert body["last_look"] == look.json()
    assert (body["conclusion"], body["ended_by"]) == ("better", "policy:experiments")


def test_second_look_without_news_is_the_last_one() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment).send(40)
    api = client_of(experiment)
    first = api.post(f"{URL}/1/looks")

    second = api.post(f"{URL}/1/looks")

    assert (second.status_code, second.json()) == (200, first.json())


def test_list_has_the_newest_first_with_a_sentence_each(django_assert_max_num_queries: Any) -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment).send(80)
    api = client_of(experiment)
    api.post(f"{URL}/1/looks")
    api.post(f"{URL}/1/stop", {"reason": "Another idea."})

    with django_assert_max_num_queries(12):
        body = api.get(URL).json()

    assert body["pagination"]["total"] == 1
    assert body["results"][0]["reason"] == "Another idea."
    assert body["results"][0]["sentence"].startswith("The experiment ended before Release 2 could be judged")


def test_stopping_twice_is_a_conflict() -> None:
    api = client_of(make_experiment())
    api.post(f"{URL}/1/stop")

    response = api.post(f"{URL}/1/stop")

    assert response.status_code == 409
    assert "has already ended" in response.json()["error"]["message"]


def test_second_experiment_is_a_conflict(api: APIClient) -> None:
    api.post(URL, {"release": "2"})

    response = api.post(URL, {"release": "2"})

    assert response.status_code == 409
    assert "Stop it, or wait" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({}, 400, "no hold-out"),
        ({"release": "9"}, 404, "no release"),
        ({"release": "2", "alpha": 1.5}, 400, "alpha"),
        ({"release": "2", "method": "exact", "metric": "score"}, 400, "counts successes only"),
        ({"release": "2", "unknown": 1}, 400, "unknown"),
        ({"release": "2", "steps": []}, 400, "no unit gets it"),
    ],
)
def test_plan_that_cannot_be_carried_out_is_refused(
    api: APIClient, sent: dict[str, Any], status: int, said: str
) -> None:
    response = api.post(URL, sent)

    assert (response.status_code, said in response.content.decode()) == (status, True), response.content


def test_uplift_without_a_holdout_is_not_known(api: APIClient) -> None:
    body = api.get(UPLIFT).json()

    assert body["whole"] == {"guided": 0, "held_out": 0, "estimate": None, "low": None, "high": None}


def test_uplift_of_too_many_days_is_refused(api: APIClient) -> None:
    assert api.get(f"{UPLIFT}?days=100000").status_code == 400


def test_page_draws_how_the_interval_narrowed() -> None:
    experiment = make_experiment()
    traffic = Traffic(experiment=experiment)
    api = client_of(experiment)
    for _ in range(3):
        traffic.send(80)
        api.post(f"{URL}/1/looks")

    page = describe_experiment(Experiment.objects.get())

    assert page["chart"].startswith("<svg")
    assert page["chart"].count("polygon") == 1
    assert [row["arm"] for row in page["outcomes"]] == ["control", "treated"]
    assert "cannot be told from chance" in page["cannot_tell"][0]
