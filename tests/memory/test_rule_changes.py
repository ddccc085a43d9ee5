"""Who decides in a project is changed by people who may review: two, where two reviewers are required."""

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import Error, IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from memory.errors import AlreadyDecided, NotAllowed, SecondReviewerNeeded
from memory.projects.actors import Actor
from memory.projects.api_keys import rotate_api_key
from memory.projects.models import ApiKey, Project, ProjectMembership, RuleChange
from memory.projects.rule_changes import add_reviewer, change_settings, confirm_change, refuse_change
from memory.trust.audit import verify_audit
from memory.trust.models import AuditEntry
from tests.factories import bearer, make_api_key, make_member, make_project, require_two

pytestmark = pytest.mark.django_db

OPERATES = ("change_project", "view_project", "view_rulechange")
REVIEWS = ("review_heuristic", "view_project", "view_rulechange")


def person(name: str, *, permissions: tuple[str, ...] = REVIEWS, roles: tuple[str, ...] = ("reviewer",)) -> Any:
    user = make_member(name, permissions=permissions, role=roles[0])
    for role in roles[1:]:
        ProjectMembership.objects.create(user=user, role=role)
    return user


def both(name: str) -> Any:
    """Someone who operates and reviews."""
    return person(name, permissions=OPERATES + REVIEWS, roles=("reviewer", "operator"))


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def save_project(client: Client, project: Project, **changed: Any) -> str:
    """Send the project's form as a browser does, with some of it changed."""
    sent = {
        "name": project.name,
        "slug": project.slug,
        "reflect_on_record": "on",
        "mistake_card_policy": project.mistake_card_policy,
        "record_sizes": "{}",
        **({"four_eyes": "on"} if project.four_eyes else {}),
    } | changed
    sent = {name: value for name, value in sent.items() if value is not None}
    response = client.post(reverse("admin:memory_project_change", args=[project.pk]), sent, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def audited(project: Project) -> list[tuple[str, dict[str, Any]]]:
    """The entries of a project's chain: what kind, and what they say."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    entries = AuditEntry.objects.filter(project_id=project.pk).order_by("number")
    return [(entry.kind, json.loads(entry.content)) for entry in entries]


def strict_project() -> Project:
    project = make_project()
    require_two(project)
    project.refresh_from_db()
    return project


# The admin


def test_operator_without_review_rights_changes_nothing_in_the_admin() -> None:
    project = make_project()
    client = signed_in(person("olga", permissions=OPERATES, roles=("operator",)))

    save_project(client, project, name="Renamed", mistake_card_policy="every-card", four_eyes="on")

    project.refresh_from_db()
    assert (project.name, project.mistake_card_policy, project.four_eyes) == ("Renamed", "people", False)


def test_operator_without_review_rights_makes_no_project_that_approves_by_policy() -> None:
    client = signed_in(person("olga", permissions=(*OPERATES, "add_project"), roles=("operator",)))
    sent = {"name": "New", "slug": "new", "mistake_card_policy": "every-card", "record_sizes": "{}"}

    client.post(reverse("admin:memory_project_add"), sent)

    assert Project.objects.get(slug="new").mistake_card_policy == "people"


def test_reviewer_who_operates_changes_it_at_once_where_one_is_enough() -> None:
    project = make_project()

    save_project(signed_in(both("ana")), project, mistake_card_policy="corroborated")

    project.refresh_from_db()
    assert project.mistake_card_policy == "corroborated"
    kind, entry = audited(project)[-1]
    assert (kind, entry["actor"], entry["said"]["mistake_card_policy"]) == ("settings", "user:ana", "corroborated")


def test_where_two_are_required_the_admin_makes_a_request_that_another_confirms() -> None:
    ana, ben = both("ana"), person("ben")
    project = strict_project()

    html = save_project(signed_in(ana), project, four_eyes=None, name="Renamed")
    project.refresh_from_db()
    assert "Nothing has changed yet" in html
    assert (project.name, project.four_eyes) == ("Renamed", True)

    change = RuleChange.objects.get()
    item = reverse("admin:inbox_item", args=["rule", change.pk])
    html = signed_in(ana).post(item, {"decision": "confirm"}, follow=True).content.decode()
    assert "another reviewer has to confirm it" in html
    assert Project.objects.get(pk=project.pk).four_eyes

    assert "<span>Rule changes</span> <strong>1</strong>" in signed_in(ben).get("/admin/").content.decode()
    assert signed_in(ben).get(reverse("admin:memory_rulechange_change", args=[change.pk])).headers["Location"] == item
    html = signed_in(ben).post(item, {"decision": "confirm"}, follow=True).content.decode()
    assert "Confirmed, and in force now" in html
    assert not Project.objects.get(pk=project.pk).four_eyes
    kinds = [kind for kind, _ in audited(project)]
    assert {"change_requested", "change_confirmed", "settings"} <= set(kinds)
    confirmed = dict(audited(project))["change_confirmed"]["said"]
    assert (confirmed["requested_by"], confirmed["decided_by"]) == ("user:ana", "user:ben")


def test_operator_cannot_confirm() -> None:
    ana = both("ana")
    olga = person("olga", permissions=OPERATES, roles=("operator",))
    project = strict_project()
    change = change_settings(project, values={"four_eyes": False}, by=Actor.person(ana))
    assert change is not None

    signed_in(olga).post(reverse("admin:inbox_item", args=["rule", change.pk]), {"decision": "confirm"})
    with pytest.raises(NotAllowed):
        confirm_change(change, by=Actor.person(olga))

    assert Project.objects.get(pk=project.pk).four_eyes


@pytest.mark.parametrize("role", ["reviewer", "auditor"])
def test_superuser_adds_a_reviewer_only_with_another_persons_word(role: str) -> None:
    root = make_member("root", is_superuser=True)
    eve = make_member("eve", role="operator")
    project = strict_project()

    sent = {"user": eve.pk, "project": str(project.pk), "role": role}
    client = signed_in(root)
    response = client.post(reverse("admin:memory_projectmembership_add"), sent, follow=True)

    added = ProjectMembership.objects.filter(user=eve, role=role).exists()
    assert response.status_code == 200
    assert (added, RuleChange.objects.count()) == ((False, 1) if role == "reviewer" else (True, 0))


def test_membership_that_becomes_a_reviewers_needs_another_persons_word() -> None:
    root = make_member("root", is_superuser=True)
    eve = make_member("eve", role="operator")
    membership = ProjectMembership.objects.get(user=eve)
    project = strict_project()

    sent = {"user": eve.pk, "project": str(project.pk), "role": "reviewer"}
    path = reverse("admin:memory_projectmembership_change", args=[membership.pk])
    signed_in(root).post(path, sent, follow=True)

    membership.refresh_from_db()
    assert (membership.role, RuleChange.objects.get().kind) == ("operator", "reviewer")


def test_memberships_are_in_the_audit_chain() -> None:
    project, root = make_project(), make_member("root", is_superuser=True, role="auditor")
    eve = make_member("eve", role="auditor")
    sent = {"user": eve.pk, "project": str(project.pk), "role": "reviewer"}
    client = signed_in(root)

    client.post(reverse("admin:memory_projectmembership_add"), sent)
    added = ProjectMembership.objects.get(user=eve, project=project)
    client.post(reverse("admin:memory_projectmembership_delete", args=[added.pk]), {"post": "yes"})

    entries = [(kind, entry["actor"], entry["said"]["username"]) for kind, entry in audited(project)[-2:]]
    assert entries == [("member_insert", "user:root", "eve"), ("member_delete", "user:root", "eve")]


# The services


def test_confirmed_reviewer_is_added_once() -> None:
    ana, ben, eve = both("ana"), person("ben"), make_member("eve", role="auditor")
    project = strict_project()
    change = add_reviewer(eve, project=project, by=Actor.person(ana))
    assert change is not None

    with pytest.raises(SecondReviewerNeeded):
        confirm_change(change, by=Actor.person(ana))
    confirm_change(change, by=Actor.person(ben))
    with pytest.raises(AlreadyDecided):
        confirm_change(change, by=Actor.person(ben))

    assert ProjectMembership.objects.filter(user=eve, project=project, role="reviewer").count() == 1
    change.refresh_from_db()
    assert change.applied_at is not None


def test_refused_change_changes_nothing() -> None:
    ana, ben = both("ana"), person("ben")
    project = strict_project()
    change = change_settings(project, values={"four_eyes": False}, by=Actor.person(ana))
    assert change is not None

    refuse_change(change, by=Actor.person(ben))

    with pytest.raises(AlreadyDecided):
        confirm_change(change, by=Actor.person(ben))
    assert Project.objects.get(pk=project.pk).four_eyes


@pytest.mark.parametrize("by", [Actor.policy("nightly"), Actor(label="command:x")])
def test_nobody_and_a_policy_change_no_rules(by: Actor) -> None:
    with pytest.raises(NotAllowed):
        change_settings(make_project(), values={"mistake_card_policy": "every-card"}, by=by)


# The database


@pytest.mark.parametrize(
    "change",
    [
        lambda project, user: Project.objects.filter(pk=project.pk).update(four_eyes=False),
        lambda project, user: Project.objects.filter(pk=project.pk).update(mistake_card_policy="every-card"),
        lambda project, user: ProjectMembership.objects.create(user=user, project=project, role="reviewer"),
        lambda project, user: ProjectMembership.objects.create(user=user, project=None, role="reviewer"),
        lambda project, user: ProjectMembership.objects.filter(user=user).update(role="reviewer"),
        lambda project, user: ApiKey.objects.filter(project=project).update(created_by=user),
        lambda project, user: ApiKey.objects.filter(project=project).update(scopes=["review"]),
    ],
)
def test_database_lets_nothing_through_that_two_have_not_agreed_on(change: Callable[[Project, Any], Any]) -> None:
    project, eve = make_project(), make_member("eve", role="auditor")
    make_api_key(project=project, client="ci")
    make_api_key(project=project, client="agent", scopes=["retrieve"])
    require_two(project)

    with pytest.raises(IntegrityError, match="two people have to agree"), transaction.atomic():
        change(project, eve)


def test_confirmation_is_used_once_and_for_what_it_says() -> None:
    ana, ben = both("ana"), person("ben")
    project = strict_project()
    change = change_settings(project, values={"mistake_card_policy": "corroborated"}, by=Actor.person(ana))
    assert change is not None
    confirm_change(change, by=Actor.person(ben))

    for values in ({"mistake_card_policy": "every-card"}, {"four_eyes": False}):
        with pytest.raises(IntegrityError, match="two people have to agree"), transaction.atomic():
            Project.objects.filter(pk=project.pk).update(**values)
    with pytest.raises(IntegrityError, match="used once"), transaction.atomic():
        RuleChange.objects.filter(pk=change.pk).update(applied_at=None)
    with pytest.raises(IntegrityError, match="used once"), transaction.atomic():
        RuleChange.objects.filter(pk=change.pk).update(values={"four_eyes": False})


def test_row_that_names_one_person_twice_lets_nothing_through() -> None:
    ana = both("ana")
    project = strict_project()
    RuleChange.objects.create(
        project=project,
        kind="settings",
        values={"four_eyes": False},
        status="confirmed",
        requested_by="user:ana",
        requested_user=ana,
        decided_by="user:anna",
        decided_user=ana,
    )

    with pytest.raises(IntegrityError, match="two people have to agree"), transaction.atomic():
        Project.objects.filter(pk=project.pk).update(four_eyes=False)


def test_change_behind_the_chains_back_is_found() -> None:
    project = strict_project()
    audited(project)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE memory_project SET four_eyes = false WHERE id = %s", [project.pk])
        cursor.execute("SET LOCAL session_replication_role = origin")

    assert any("who decides in the project differs" in fault.message for fault in verify_audit().faults)


# The API


def test_api_has_no_door_to_who_decides() -> None:
    project = make_project()
    key = make_api_key(project=project)
    api = APIClient()

    for path in ("projects", f"projects/{project.pk}", "memberships", "api-keys", "rule-changes"):
        sent = api.post(f"/api/v1/{path}", {"four_eyes": False}, format="json", headers=bearer(key.token))
        assert sent.status_code == 404


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE memory_project SET four_eyes = false",
        "UPDATE memory_apikey SET scopes = '{review}'",
        "INSERT INTO memory_projectmembership (user_id, role, created_at) VALUES (1, 'reviewer', now())",
        "UPDATE memory_rulechange SET status = 'confirmed'",
        "DELETE FROM memory_rulechange",
    ],
)
def test_role_of_requests_may_not_change_who_decides(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE erl_tenant")
        with pytest.raises(Error, match="permission denied"):
            cursor.execute(statement)
        transaction.set_rollback(True)


# The management commands


def create_key(project: Project, *options: str) -> dict[str, Any]:
    out = StringIO()
    call_command("create_api_key", f"--project={project.slug}", "--client=ci", "--json", *options, stdout=out)
    made: dict[str, Any] = json.loads(out.getvalue())
    return made


def test_command_makes_no_key_that_may_review_for_nobody() -> None:
    person("olga", permissions=OPERATES, roles=("operator",))
    project = strict_project()

    for options in ((), ("--by=olga",)):
        with pytest.raises(CommandError, match="people who may review"):
            create_key(project, "--scope=all", *options)
    assert not ApiKey.objects.exists()


def test_key_that_a_command_makes_may_review_once_another_person_confirms_it() -> None:
    ana, ben = both("ana"), person("ben")
    project = strict_project()

    made = create_key(project, "--scope=all", f"--by={ana.username}")
    assert "review" not in made["scopes"]
    confirm_change(RuleChange.objects.get(), by=Actor.person(ben))

    key = ApiKey.objects.get(pk=made["id"])
    assert "review" in key.scopes
    assert "review" in rotate_api_key(key).api_key.scopes


def test_key_that_only_reviews_is_refused_with_what_to_do() -> None:
    ana = both("ana")

    with pytest.raises(CommandError, match="Add another scope"):
        create_key(strict_project(), "--scope=review", f"--by={ana.username}")
