"""Who may decide on what, and what is said where words, rights or projects changed meanwhile."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from memory.curation.decisions import reject_heuristic
from memory.curation.proposals import revise_heuristic
from memory.errors import NotAllowed, ProjectArchived
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.projects.actors import Actor
from memory.projects.models import Project, ProjectMembership
from memory.retrieval.models import Retrieval
from memory.review.models import Review
from memory.runs.models import Trajectory
from tests.desk.desk_pages import address, decide, log_in, page, served
from tests.factories import (
    approve_as_read,
    make_api_key,
    make_heuristic,
    make_member,
    make_project,
    make_retrieval,
    make_trajectory,
)

pytestmark = pytest.mark.django_db


def _is_of_a_project(model: Any) -> bool:
    names = {field.attname for field in model._meta.concrete_fields}
    return "project_id" in names and model is not ProjectMembership


# ── Text that changed ──


def test_decision_on_changed_text_shows_both_versions_and_decides_nothing() -> None:
    heuristic = make_heuristic(trigger="a refund is asked for", guideline="Check the fare class first.")
    ana = log_in("ana")
    text = HeuristicText(trigger="a refund is asked for", guideline="Check the cabin class first.")
    revise_heuristic(heuristic, text=text, by=Actor(label="user:ben"))

    html = decide(ana, heuristic)

    assert "Nothing was decided: the lesson changed after you read it" in html
    assert "You read revision 1. ben has since written revision 2" in html
    assert "Check the <del>fare</del><ins>cabin</ins> class first." in html
    assert not Review.objects.exists()


def test_edit_of_changed_text_keeps_what_was_typed() -> None:
    heuristic = make_heuristic()
    ana = log_in("ana")
    revise_heuristic(heuristic, text=HeuristicText(trigger="new", guideline="new"), by=Actor(label="user:ben"))

    html = decide(ana, heuristic, "edit", trigger="mine", guideline="my own words")

    assert "the lesson changed after you read it" in html
    assert "my own words</textarea>" in html
    assert not Review.objects.exists()


# ── Rights that went away ──


def test_group_removed_after_opening_the_page_says_so() -> None:
    heuristic = make_heuristic()
    user = make_member("ana", permissions=[])
    group = Group.objects.get_or_create(name="Reviewer")[0]
    group.permissions.set(make_member("other").user_permissions.all())
    user.groups.set([group])
    client = Client()
    client.force_login(user)
    assert 'value="approve"' in page(client, heuristic)

    user.groups.clear()
    html = decide(client, heuristic)

    assert "do not have it" in html or "Your account does not have permission" in html
    assert not Review.objects.exists()


def test_permission_to_decide_lost_after_opening_the_page_says_so() -> None:
    heuristic, user = make_heuristic(), make_member("ana")
    client = Client()
    client.force_login(user)
    page(client, heuristic)

    user.user_permissions.remove(user.user_permissions.get(codename="review_heuristic"))
    html = decide(client, heuristic)

    assert "you need the permission “review heuristics”" in html
    assert "Nothing was changed." in html
    assert not Review.objects.exists()


def test_service_refuses_who_lost_the_permission() -> None:
    user = make_member("ana", permissions=["view_heuristic"])

    with pytest.raises(NotAllowed, match="no longer have the permission"):
        reject_heuristic(make_heuristic(), by=Actor.person(user))


def test_service_refuses_a_reviewer_of_another_project() -> None:
    user = make_member("ana", project=make_project())

    with pytest.raises(NotAllowed, match="do not have the role reviewer in the project"):
        approve_as_read(make_heuristic(), by=Actor.person(user))


def test_service_refuses_a_key_of_another_project() -> None:
    with pytest.raises(NotAllowed, match="may not review lessons in the project"):
        approve_as_read(make_heuristic(), by=Actor.key(make_api_key().api_key))


def test_auditor_reads_and_is_offered_nothing() -> None:
    heuristic = make_heuristic()

    html = page(log_in("eve", role="auditor"), heuristic)

    assert "the role of a reviewer in this project" in html
    assert 'name="decision"' not in html


def test_member_sees_no_other_project() -> None:
    mine, other = make_heuristic(), make_heuristic(trigger="another project's secret")
    client = log_in("ana", project=mine.project)

    listed = client.get(reverse("admin:memory_heuristic_changelist")).content.decode()
    opened = client.get(address(other), follow=True).content.decode()

    assert str(mine.current_revision.trigger) in listed  # type: ignore[union-attr]
    assert "another project's secret" not in listed + opened
    assert other.project.name not in listed
    assert "you are no longer a member of the project" in opened


@pytest.mark.parametrize("model", [Heuristic, Trajectory, Retrieval, Review])
def test_person_without_membership_sees_no_rows(model: Any) -> None:
    heuristic = make_heuristic(trajectory=make_trajectory())
    make_retrieval(project=heuristic.project)
    approve_as_read(heuristic, by=Actor(label="user:x"))
    name = model._meta.model_name
    user = make_member("ana", permissions=[f"view_{name}"])
    ProjectMembership.objects.all().delete()
    client = Client()
    client.force_login(user)

    response = client.get(reverse(f"admin:memory_{name}_changelist"))

    assert response.context["cl"].result_count == 0


@pytest.mark.parametrize("name", sorted(model._meta.label for model in admin.site._registry if _is_of_a_project(model)))
def test_every_list_of_projects_records_is_narrowed_to_members(name: str, rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = make_member("ana")

    rows = admin.site._registry[apps.get_model(name)].get_queryset(request)

    assert "memory_projectmembership" in str(rows.query)


# ── Projects that went away ──


def test_decision_in_an_archived_project_says_so() -> None:
    heuristic = make_heuristic()
    ana = log_in("ana")
    page(ana, heuristic)
    Project.objects.update(archived_at=timezone.now())

    html = decide(ana, heuristic)

    assert "was archived on" in html
    assert "is archived, so no decisions are open in it" in html
    assert not Review.objects.exists()


def test_archived_project_still_lets_harm_be_withdrawn() -> None:
    heuristic = make_heuristic(status="approved", project=make_project(archived_at=timezone.now()))

    decide(log_in("ana"), heuristic, "quarantine", reason_code="Harmful or against policy")

    assert not served(heuristic)


def test_service_refuses_to_approve_in_an_archived_project() -> None:
    with pytest.raises(ProjectArchived):
        approve_as_read(make_heuristic(project=make_project(archived_at=timezone.now())), by=Actor(label="user:x"))


def test_decision_on_a_deleted_project_says_so() -> None:
    heuristic = make_heuristic()
    ana = log_in("ana")
    Heuristic.objects.update(current_revision=None)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL erl.erasing = 'on'")
        heuristic.project.delete()
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL erl.erasing = 'off'")

    html = decide(ana, heuristic)

    assert "This lesson or its project was deleted" in html
