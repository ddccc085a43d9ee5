"""Settings in the admin: API keys made, replaced and revoked; the forms of a project and of its members; health."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.projects.api_keys import AGENT_SCOPES, parse_token
from memory.projects.models import ApiKey, Project
from tests.factories import make_api_key, make_member, make_project

pytestmark = pytest.mark.django_db

OPERATOR = ("view_apikey", "change_apikey", "view_project", "change_project", "add_project")


def log_in(project: Project, *permissions: str, role: str = "operator") -> Client:
    client = Client()
    client.force_login(make_member(project=project, role=role, permissions=permissions or OPERATOR))
    return client


def make(client: Client, project: Project, **fields: Any) -> Any:
    asked = {"project": project.pk, "client": "airline-agent", "scopes": list(AGENT_SCOPES), **fields}
    return client.post(reverse("admin:memory_apikey_add"), asked)


def act(client: Client, key: ApiKey, do: str) -> Any:
    return client.post(reverse("admin:memory_apikey_change", args=[key.pk]), {"do": do}, follow=True)


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_operator_makes_a_key_that_is_shown_once() -> None:
    project = make_project()
    client = log_in(project)

    answer = make(client, project, expires_days=30)

    token = answer.context["new"].token
    key = ApiKey.objects.get()
    credential = parse_token(token)
    assert credential is not None
    assert (credential.prefix, sorted(key.scopes)) == (key.prefix, sorted(AGENT_SCOPES))
    assert token in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]
    assert token not in client.get(reverse("admin:memory_apikey_change", args=[key.pk])).content.decode()
    assert (key.created_by_id, key.expires_at is None) == (int(client.session["_auth_user_id"]), False)


def test_form_offers_only_projects_the_person_operates() -> None:
    project, other = make_project(), make_project()
    client = log_in(project)

    offered = client.get(reverse("admin:memory_apikey_add")).context["form"].fields["project"].queryset
    answer = make(client, other)

    assert list(offered) == [project]
    assert "Select a valid choice" in answer.content.decode()
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("scope", ["review", "release", "approve"])
def test_operator_makes_no_key_that_decides(scope: str) -> None:
    project = make_project()
    client = log_in(project)

    answer = make(client, project, scopes=["retrieve", scope])

    assert "Only people who may review" in answer.content.decode()
    assert not ApiKey.objects.exists()


def test_superuser_makes_a_key_that_decides(admin_client: Client) -> None:
    make(admin_client, make_project(), scopes=["review"])

    assert ApiKey.objects.get().scopes == ["review"]


@pytest.mark.parametrize(("role", "permissions"), [("auditor", OPERATOR), ("operator", ("view_apikey",))])
def test_others_make_no_key(role: str, permissions: tuple[str, ...]) -> None:
    project = make_project()

    assert make(log_in(project, *permissions, role=role), project).status_code == 403
    assert not ApiKey.objects.exists()


def test_key_is_replaced_by_one_with_the_same_scopes() -> None:
    project = make_project()
    key = make_api_key(project=project, scopes=["retrieve"]).api_key

    answer = act(log_in(project), key, "rotate")

    new = ApiKey.objects.exclude(pk=key.pk).get()
    key.refresh_from_db()
    assert (new.scopes, new.client) == (["retrieve"], key.client)
    assert key.expires_at is not None
    assert new.prefix in answer.content.decode()


def test_operator_replaces_no_key_that_decides() -> None:
    project = make_project()
    key = make_api_key(project=project, scopes=["review"]).api_key

    answer = act(log_in(project), key, "rotate")

    assert "Only people who may review" in answer.content.decode()
    assert ApiKey.objects.count() == 1


def test_key_is_revoked_on_its_page() -> None:
    project = make_project()
    key = make_api_key(project=project).api_key
    client = log_in(project)
    assert b"Revoke the key" in client.get(reverse("admin:memory_apikey_change", args=[key.pk])).content

    answer = act(client, key, "revoke")

    key.refresh_from_db()
    assert key.revoked_at is not None
    assert b"Revoke the key" not in answer.content


@pytest.mark.parametrize("do", ["revoke", "rotate"])
def test_key_of_another_project_is_not_found(do: str) -> None:
    key = make_api_key(project=make_project()).api_key

    assert act(log_in(make_project()), key, do).status_code == 403
    key.refresh_from_db()
    assert (key.revoked_at, ApiKey.objects.count()) == (None, 1)


@pytest.mark.parametrize("do", ["revoke", "rotate"])
def test_auditor_changes_no_key(do: str) -> None:
    key = make_api_key(project=make_project()).api_key

    answer = act(log_in(key.project, role="auditor"), key, do)

    key.refresh_from_db()
    assert "You are not an operator" in answer.content.decode()
    assert (key.revoked_at, ApiKey.objects.count()) == (None, 1)


# ── Projects ──────────────────────────────────────────────────────────────────────────────────────────────────────
def test_project_is_edited_in_fields_of_one_line() -> None:
    project = make_project(record_sizes={"mistakes": 7})

    html = log_in(project).get(reverse("admin:memory_project_change", args=[project.pk])).content.decode()

    assert '<input type="text" name="name"' in html
    assert 'name="record_sizes"' not in html
    assert 'name="most_mistakes" value="7"' in html


def test_sizes_of_the_record_are_saved_from_their_fields() -> None:
    project = make_project(record_sizes={"mistakes": 7})
    client = log_in(project)
    page = reverse("admin:memory_project_change", args=[project.pk])
    sent = {"name": "Airline", "slug": project.slug, "reflect_on_record": "on", "daily_token_budget": "5000"}

    client.post(page, sent | {"most_mean_score": "0", "most_mistake_cards": "5"})

    project.refresh_from_db()
    assert (project.name, project.daily_token_budget) == ("Airline", 5000)
    assert project.record_sizes == {"mean_score": 0, "mistake_cards": 5}


def test_size_of_the_record_out_of_range_is_refused() -> None:
    project = make_project()
    page = reverse("admin:memory_project_change", args=[project.pk])

    answer = log_in(project).post(page, {"name": "x", "slug": project.slug, "most_mistakes": "51"})

    assert "less than or equal to 50" in answer.content.decode()


# ── Health ────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_health_says_what_check_says(admin_client: Client) -> None:
    answer = admin_client.get(reverse("admin:health"))

    names = {result.name for result in answer.context["results"]}
    assert {"migrations", "durability", "workers", "sandbox"} <= names
    assert "Start one: celery --app=erl_site worker." in answer.content.decode()


def test_health_is_for_superusers() -> None:
    assert log_in(make_project()).get(reverse("admin:health")).status_code == 403


# ── Members ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_member_is_added_by_plain_fields(admin_client: Client) -> None:
    html = admin_client.get(reverse("admin:memory_projectmembership_add")).content.decode()

    assert "Every project, including future ones" in html
    assert "Auditor: only reads" in html
    assert "admin-autocomplete" not in html
