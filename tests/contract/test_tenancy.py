"""Who may do what, for every operation of the OpenAPI document (reliability D9, D11)."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.utils import timezone

from memory.projects.models import ApiKey
from tests.api.conftest import make_client
from tests.api.operations import OPERATIONS, WITH_ID, fill_body, make_target
from tests.api.problems import error_of
from tests.factories import make_api_key, make_project, make_retrieval, make_trajectory
from tests.lanes import nightly_unless
from tests.product import forget_verified_keys, mint_credential
from tests.stack import PACKAGES

pytestmark = pytest.mark.django_db

MALFORMED_IDS = ["1", "x", "019A0000-0000-7000-8000-00000000000G", "..%2f", "%00", "a" * 3000]
# To evolve takes an agent with twenty runs; with every commit, tests/evaluation/test_evolutions_api.py tries its keys.
each_operation = pytest.mark.parametrize(
    "operation", nightly_unless(lambda operation: operation.id != "evolve", OPERATIONS), ids=str
)
each_operation_with_id = pytest.mark.parametrize("operation", WITH_ID, ids=str)


def snapshot() -> dict[str, list[dict[str, object]]]:
    """Every row of ours, apart from when keys were used."""
    models = [model for app in apps.get_app_configs() if app.name in PACKAGES for model in app.get_models()]
    rows = {model.__name__: list(model._default_manager.order_by("pk").values()) for model in models}
    for row in rows["ApiKey"]:
        row.pop("last_used_at")
    return rows


@each_operation
def test_operation_with_its_scope_alone_succeeds(operation, project):
    key = make_api_key(project=project, scopes=operation.scopes)

    response = operation.send(make_client(key.token), project)

    assert response.status_code in operation.success, response.content


@each_operation
def test_operation_without_key_answers_401(operation, project, anonymous_client):
    response = operation.send(anonymous_client, project)

    assert error_of(response) == (401, "not_authenticated")
    assert response["WWW-Authenticate"].startswith("Bearer ")


@each_operation
def test_operation_with_a_key_that_is_not_valid_answers_401(operation, project):
    revoked = make_api_key(project=project)
    ApiKey.objects.filter(pk=revoked.api_key.pk).update(revoked_at=timezone.now())
    tokens = {
        "unknown": mint_credential().token,
        "malformed": "erl_live_nonsense",
        "revoked": revoked.token,
        "expired": make_api_key(project=project, expires_at=timezone.now() - timedelta(seconds=1)).token,
    }
    forget_verified_keys()
    url, body = operation.prepare(project)

    answers = {kind: error_of(operation.send_to(make_client(token), url, body)) for kind, token in tokens.items()}

    assert answers == dict.fromkeys(tokens, (401, "invalid_api_key"))


@each_operation
def test_operation_with_every_other_scope_answers_403(operation, project):
    for lacking in operation.scopes:
        scopes = [scope for scope in ApiKey.Scope.values if scope != lacking]
        key = make_api_key(project=project, scopes=scopes)

        response = operation.send(make_client(key.token), project)

        assert error_of(response) == (403, "missing_scope")


@each_operation_with_id
def test_operation_on_what_belongs_to_another_project_answers_404_and_changes_nothing(operation, project):
    theirs = make_project()
    url = operation.path.replace("{id}", str(make_target(operation, theirs)))
    body = fill_body(operation, project)
    client = make_client(make_api_key(project=project).token)
    before = snapshot()

    response = operation.send_to(client, url, body)

    assert error_of(response) == (404, "not_found")
    assert snapshot() == before


@each_operation_with_id
def test_operation_on_what_does_not_exist_answers_404(operation, project, api_client):
    url = operation.path.replace("{id}", "019a0000-0000-7000-8000-000000000000")

    response = operation.send_to(api_client, url, fill_body(operation, project))

    assert error_of(response) == (404, "not_found")


@each_operation_with_id
def test_operation_with_malformed_id_answers_404(operation, project, api_client):
    body = fill_body(operation, project)

    answers = {
        malformed: error_of(operation.send_to(api_client, operation.path.replace("{id}", malformed), body))
        for malformed in MALFORMED_IDS
    }

    assert answers == dict.fromkeys(MALFORMED_IDS, (404, "not_found"))


@each_operation
def test_operation_under_its_idempotency_key_shows_nothing_to_another_project(operation, project):
    mine = make_client(make_api_key(project=project).token)
    theirs = make_client(make_api_key().token)
    headers = {"Idempotency-Key": "shared"}
    url = operation.path.replace("{id}", str(make_target(operation, project))) if operation.has_id else operation.path
    body = fill_body(operation, project)
    operation.send_to(mine, url, body, headers=headers)

    response = operation.send_to(theirs, url, body, headers=headers)

    assert "Idempotent-Replayed" not in response


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.id.startswith("list") and not one.has_id], ids=str
)
def test_list_shows_nothing_of_another_project(operation, project, other_client):
    make_target(operation, project)

    response = other_client.get(operation.path)

    assert response.json()["pagination"]["total"] == 0


@pytest.mark.parametrize("member", ["trajectory_id", "retrieval_id"])
def test_feedback_that_names_a_foreign_row_answers_404(api_client, project, member):
    operation = next(one for one in WITH_ID if one.id == "rateHeuristic")
    url = operation.path.replace("{id}", str(make_target(operation, project)))
    foreign = {"trajectory_id": make_trajectory, "retrieval_id": make_retrieval}[member]()

    response = api_client.post(url, {"verdict": "followed", member: str(foreign.pk)})

    assert error_of(response) == (404, "not_found")
    assert f"/{member}" in response.json()["error"]["fields"]


def test_filter_by_a_foreign_trajectory_shows_nothing(api_client):
    trajectory = make_trajectory()

    response = api_client.get("/api/v1/reflections", {"trajectory": str(trajectory.pk)})

    assert response.json()["results"] == []
