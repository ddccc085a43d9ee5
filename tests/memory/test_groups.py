"""What the groups Reviewer, Auditor and Operator may do."""

from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse

from memory.groups import MEMORY_PERMISSIONS, grant_permissions
from memory.projects.models import ProjectMembership
from memory.review.models import Review
from tests.factories import make_heuristic

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def groups() -> None:
    # Again, because a test that commits empties the table.
    grant_permissions(apps, "memory", MEMORY_PERMISSIONS)
    import_module("reflection.migrations.0003_groups").extend_groups(apps, None)


def member(client: Client, group: str) -> Client:
    user = get_user_model().objects.create_user("ana", is_staff=True)
    user.groups.set([Group.objects.get(name=group)])
    ProjectMembership.objects.create(user=user, role=group.lower())
    client.force_login(user)
    return client


def permissions(group: str) -> set[str]:
    return set(Permission.objects.filter(group__name=group).values_list("codename", flat=True))


def approve(client: Client) -> int:
    heuristic = make_heuristic()
    assert heuristic.current_revision is not None
    sent = {"decision": "approve", "content_sha256": heuristic.current_revision.content_sha256}
    return client.post(reverse("admin:inbox_item", args=["lesson", heuristic.pk]), sent).status_code


def test_reviewer_decides(client: Client) -> None:
    assert approve(member(client, "Reviewer")) == 302
    assert Review.objects.get().reviewer == "user:ana"


@pytest.mark.parametrize("group", ["Auditor", "Operator"])
def test_others_look_on_but_do_not_decide(client: Client, group: str) -> None:
    client = member(client, group)

    assert approve(client) == 403
    assert client.get(reverse("admin:memory_heuristic_changelist")).status_code == 200
    assert not Review.objects.exists()


def test_auditor_changes_nothing() -> None:
    assert {codename.partition("_")[0] for codename in permissions("Auditor")} == {"view"}


def test_operator_manages_keys_webhooks_and_reflections() -> None:
    only = permissions("Operator") - permissions("Reviewer") - permissions("Auditor")

    assert {"change_apikey", "requeue_reflection", "add_webhookendpoint", "view_webhookendpoint"} <= only


@pytest.mark.parametrize("page", ["/admin/", "/admin/memory/heuristic/", "/admin/memory/review/"])
def test_every_group_reads_the_records(client: Client, page: str) -> None:
    assert member(client, "Auditor").get(page).status_code == 200


def test_groups_use_the_permissions_that_django_makes() -> None:
    doubled = Permission.objects.filter(codename__in=["review_heuristic", "requeue_reflection"])

    assert doubled.count() == 2


def test_reviewer_decides_about_changes_which_all_may_read() -> None:
    import_module("runtime.migrations.0003_groups").extend_groups(apps, None)
    may = {
        group: permissions(group) & {"view_change", "decide_change"} for group in ("Auditor", "Operator", "Reviewer")
    }

    assert may == {
        "Auditor": {"view_change"},
        "Operator": {"view_change"},
        "Reviewer": {"view_change", "decide_change"},
    }
