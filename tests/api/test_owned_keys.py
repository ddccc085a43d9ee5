"""Keys that decide act as the person who owns them: for as long as that person may, and no longer."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.errors import NotAllowed
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project, ProjectMembership
from runtime.definitions.storage import save_tool
from runtime.definitions.values import ToolDefinition
from tests.desk.desk_pages import served
from tests.factories import (
    approve_as_read,
    bearer,
    make_api_key,
    make_heuristic,
    make_member,
    make_project,
    read,
    require_two,
)
from tests.runtime.running import Script, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
BY = Actor.policy("test")
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
RIGHTS = ("review_heuristic", "deploy_release", "decide_change", "decide_approval", "review_tool")
Asked = tuple[str, str, dict[str, Any]]  # of the API: method, path, body


def reviewer_and_key(**overrides: Any) -> tuple[Any, Project, ApiKey, str]:
    """Make a person who may decide everything in a project, and a key that decides as this person."""
    project = make_project()
    ben = make_member("ben", project=project, permissions=RIGHTS)
    new = make_api_key(project=project, client="ci", owner_id=ben.pk, **overrides)
    return ben, project, new.api_key, new.token


def send(token: str, asked: Asked) -> Any:
    method, path, body = asked
    client = Client(headers=bearer(token))
    return client.generic(method, f"/api/v1/{path}", json.dumps(body), content_type="application/json")


def approve_lesson(project: Project) -> Asked:
    heuristic = make_heuristic(project=project)
    return "POST", f"heuristics/{heuristic.pk}/approve", {"content_sha256": read(heuristic)}


def cut_release(project: Project) -> Asked:
    return "POST", "releases", {}


def set_hold_out(project: Project) -> Asked:
    return "PATCH", "deployment", {"holdout_percent": 10}


def let_agent_evolve(project: Project) -> Asked:
    return "PATCH", f"agents/{make_agent(project=project).pk}/evolution", {"sleep_after_runs": 5}


def approve_call(project: Project) -> Asked:
    rules = ({"type": "requires_approval", "tool": "send_message"},)
    run = make_run(make_agent(project=project, tools=["send_message"], rules=rules))
    go_on(run, Script([("send_message", {"message": "Hello"})]))
    effect = run.effects.get()
    return (
        "POST",
        f"effects/{effect.pk}/decide",
        {"decision": "approve", "arguments_sha256": effect.arguments_sha256},
    )


def allow_tool(project: Project) -> Asked:
    agent = make_agent(project=project, tools=["send_message"])
    return "POST", f"agents/{agent.pk}/allow", {"tool": "send_message"}


def _tool(project: Project) -> tuple[str, str]:
    source = 'def greet() -> str:\n    return "hi"\n'
    definition = ToolDefinition(name="greet", description="Greet.", parameters=NOTHING, source=source)
    revision = save_tool(project, definition, by=BY).revision
    return str(revision.tool_id), revision.content_sha256


def approve_tool(project: Project) -> Asked:
    id, sha256 = _tool(project)
    return "POST", f"tools/{id}/approve", {"sha256": sha256}


def reject_tool(project: Project) -> Asked:
    id, sha256 = _tool(project)
    return "POST", f"tools/{id}/reject", {"sha256": sha256}


def leave_project(ben: Any) -> None:
    ben.project_memberships.all().delete()


def leave_groups(ben: Any) -> None:
    ben.user_permissions.clear()


def become_auditor(ben: Any) -> None:
    ben.project_memberships.update(role=ProjectMembership.Role.AUDITOR)


def be_deactivated(ben: Any) -> None:
    type(ben).objects.filter(pk=ben.pk).update(is_active=False)


def be_deleted(ben: Any) -> None:
    ben.delete()


DECISIONS = [
    approve_lesson, cut_release, set_hold_out, let_agent_evolve, approve_call, allow_tool, approve_tool, reject_tool,
]  # fmt: skip
LOSSES = [leave_project, leave_groups, become_auditor, be_deactivated, be_deleted]


@pytest.mark.parametrize("decision", DECISIONS)
def test_key_decides_while_its_owner_may(decision: Callable[[Project], Asked]) -> None:
    _, project, _, token = reviewer_and_key()

    assert send(token, decision(project)).status_code in (200, 201)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("decision", DECISIONS)
def test_key_decides_nothing_once_its_owner_may_not(
    decision: Callable[[Project], Asked], loss: Callable[[Any], None]
) -> None:
    ben, project, _, token = reviewer_and_key()
    asked = decision(project)
    loss(ben)

    assert send(token, asked).status_code == 403


def test_refusal_says_for_whom_the_key_acts() -> None:
    ben, project, key, _ = reviewer_and_key()
    leave_project(ben)

    with pytest.raises(NotAllowed, match="acts for ben, but they do not have the role reviewer in the project"):
        approve_as_read(make_heuristic(project=project), by=Actor.key(key))


def test_key_without_an_owner_decides_as_before() -> None:
    project = make_project()

    assert send(make_api_key(project=project).token, approve_lesson(project)).status_code == 200


def test_key_of_a_superuser_decides_without_a_membership() -> None:
    ben, project, _, token = reviewer_and_key()
    leave_project(ben)
    type(ben).objects.filter(pk=ben.pk).update(is_superuser=True)

    assert send(token, approve_lesson(project)).status_code == 200


@pytest.mark.parametrize("loss", LOSSES)
def test_key_of_who_left_is_not_one_of_two_reviewers(loss: Callable[[Any], None]) -> None:
    ben, project, key, _ = reviewer_and_key()
    heuristic, ana = make_heuristic(project=project), make_member("ana")
    require_two(project)
    approve_as_read(heuristic, by=Actor.person(ana))
    loss(ben)

    with pytest.raises(NotAllowed):
        approve_as_read(heuristic, by=Actor.key(key))

    assert not served(heuristic)


def test_key_of_a_deleted_account_keeps_what_does_not_decide() -> None:
    ben, _, key, _ = reviewer_and_key(scopes=["retrieve", "review", "approve"])

    be_deleted(ben)

    key.refresh_from_db()
    assert (key.scopes, key.revoked_at) == (["retrieve"], None)


def test_key_of_a_deleted_account_that_only_decides_is_revoked() -> None:
    ben, _, key, _ = reviewer_and_key(scopes=["release"])

    be_deleted(ben)

    key.refresh_from_db()
    assert key.revoked_at is not None


# ── Where rights are taken, the keys that go with them are named ──────────────────────────────────────────────────────


def test_removed_membership_names_the_keys_that_decide(admin_client: Client) -> None:
    ben, project, key, _ = reviewer_and_key()
    make_api_key(project=project, client="reader", scopes=["retrieve"], owner_id=ben.pk)
    membership = ben.project_memberships.get()

    path = reverse("admin:memory_projectmembership_delete", args=[membership.pk])
    html = admin_client.post(path, {"post": "yes"}, follow=True).content.decode()

    assert "API keys of ben that decide" in html
    assert reverse("admin:memory_apikey_change", args=[key.pk]) in html
    assert "reader (" not in html


def test_removed_memberships_name_the_keys_too(admin_client: Client) -> None:
    ben, _, key, _ = reviewer_and_key()
    chosen = [ben.project_memberships.get().pk]

    path = reverse("admin:memory_projectmembership_changelist")
    posted = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    html = admin_client.post(path, posted, follow=True).content.decode()

    assert reverse("admin:memory_apikey_change", args=[key.pk]) in html


def test_changed_membership_names_the_keys_of_who_had_it(admin_client: Client) -> None:
    ben, project, key, _ = reviewer_and_key()
    ana = make_member("ana", project=make_project())

    path = reverse("admin:memory_projectmembership_change", args=[ben.project_memberships.get().pk])
    posted = {"user": ana.pk, "project": project.pk, "role": "reviewer"}
    html = admin_client.post(path, posted, follow=True).content.decode()

    assert "API keys of ben that decide" in html
    assert reverse("admin:memory_apikey_change", args=[key.pk]) in html
