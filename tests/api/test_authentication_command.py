import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import RequestFactory
from rest_framework.request import Request

from memory.api.authentication import ApiKeyAuthentication
from memory.projects.api_keys import AGENT_SCOPES
from memory.projects.models import ApiKey, Project
from tests.factories import make_project

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("create_api_key", *arguments, stdout=out)
    return out.getvalue()


def run_json(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return answer


def find_key(token: str) -> ApiKey:
    """Return the key that the API takes a token for."""
    authenticated = ApiKeyAuthentication().authenticate(
        Request(RequestFactory().get("/", HTTP_AUTHORIZATION=f"Bearer {token}"))
    )
    assert authenticated is not None
    return authenticated[1]


def test_command_prints_a_key_that_works() -> None:
    project = make_project(slug="airline")

    token = run("--project", "airline", "--client", "bot").split()[0]

    assert find_key(token).project == project


def test_key_does_what_an_agent_needs_and_no_more() -> None:
    make_project(slug="airline")

    answer = run_json("--project", "airline", "--client", "bot")

    assert answer["scopes"] == sorted(AGENT_SCOPES)
    assert set(ApiKey.Scope.values) - set(answer["scopes"]) == {
        *("review", "release", "approve", "agents", "run", "evaluate", "memory:read", "memory:write", "import")
    }


def test_scopes_can_be_chosen() -> None:
    make_project(slug="airline")

    answer = run_json("--project", "airline", "--client", "bot", "--scope", "review", "--scope", "retrieve")

    assert answer["scopes"] == ["retrieve", "review"]


def test_all_scopes_can_be_asked_for() -> None:
    make_project(slug="airline")

    assert run_json("--project", "airline", "--client", "bot", "--scope", "all")["scopes"] == sorted(
        ApiKey.Scope.values
    )


def test_key_can_end() -> None:
    make_project(slug="airline")

    run("--project", "airline", "--client", "bot", "--expires-days", "30")

    key = ApiKey.objects.get()
    assert key.expires_at is not None
    assert round((key.expires_at - key.created_at).total_seconds() / 86_400) == 30


def test_missing_project_is_named_with_what_to_do() -> None:
    make_project(slug="airline")

    with pytest.raises(CommandError, match=r"known: airline.*--create-project"):
        run("--project", "arline", "--client", "bot")


def test_project_can_be_made_on_the_way() -> None:
    run("--project", "new-one", "--client", "bot", "--create-project")

    assert Project.objects.get().slug == "new-one"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--project", "no slug", "--client", "bot", "--create-project"],
        ["--project", "p", "--client", " ", "--create-project"],
        ["--project", "p", "--client", "bot", "--create-project", "--expires-days", "0"],
        ["--project", "p", "--client", "bot", "--create-project", "--scope", "everything"],
    ],
    ids=" ".join,
)
def test_wrong_argument_makes_nothing(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        run(*arguments)

    assert not Project.objects.exists()


def test_key_belongs_to_whom_it_is_made_by() -> None:
    make_project(slug="airline")
    ana = get_user_model().objects.create_user("ana")

    run_json("--project", "airline", "--client", "bot", "--by", "ana")

    assert ApiKey.objects.get().created_by == ana


def test_unknown_owner_is_refused_and_nothing_is_made() -> None:
    with pytest.raises(CommandError, match="There is no active account 'eva'"):
        run("--project", "airline", "--client", "bot", "--by", "eva", "--create-project")

    assert not ApiKey.objects.exists()
    assert not Project.objects.exists()
