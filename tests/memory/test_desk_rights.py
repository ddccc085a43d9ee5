"""Who may decide on what, and what two people who want to decide at once are told."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from memory.errors import ClaimedByOther, NotAllowed, ProjectArchived, SecondReviewerNeeded
from memory.models import (
    Heuristic,
    HeuristicRevision,
    Project,
    ProjectMembership,
    Retrieval,
    Review,
    ReviewClaim,
    Trajectory,
)
from memory.services.claim_heuristic import open_heuristic, take_over_heuristic
from memory.services.propose_heuristic import revise_heuristic
from memory.services.review_heuristic import (
    approve_heuristic,
    edit_and_approve_heuristic,
    record_review,
    reject_heuristic,
)
from memory.services.undo_review import undo_review
from memory.values import Actor, LessonText
from tests.factories import (
    bearer,
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


def log_in(username: str, **options: Any) -> Client:
    client = Client()
    client.force_login(make_member(username, **options))
    return client


def address(heuristic: Heuristic) -> str:
    return reverse("admin:memory_heuristic_change", args=[heuristic.pk])


def page(client: Client, heuristic: Heuristic) -> str:
    return client.get(address(heuristic)).content.decode()


def decide(client: Client, heuristic: Heuristic, decision: str = "approve", **values: Any) -> str:
    """Decide on the words that were on the page when `heuristic` was read."""
    assert heuristic.current_revision is not None
    sent = {"decision": decision, "content_sha256": heuristic.current_revision.content_sha256} | values
    return client.post(address(heuristic), sent, follow=True).content.decode()


def served(heuristic: Heuristic) -> bool:
    return HeuristicRevision.objects.filter(heuristic=heuristic, served=True).exists()


# ── Two at once ──


def test_second_reviewer_sees_who_is_on_it_and_gets_no_buttons() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    page(ana, heuristic)

    html = page(ben, heuristic)

    assert "ana is deciding on this</strong> until" in html
    assert 'value="claim"' in html
    assert 'value="approve"' not in html


def test_decision_on_what_another_is_on_is_refused() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    page(ana, heuristic)

    html = decide(ben, heuristic)

    assert "ana is deciding on this one until" in html
    assert not Review.objects.exists()


def test_take_over_lets_the_second_decide_and_refuses_the_first() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    page(ana, heuristic)

    assert "It is yours until" in decide(ben, heuristic, "claim")
    assert "ben is deciding on this one until" in decide(ana, heuristic)
    assert "Approved. Agents get" in decide(ben, heuristic)
    assert Review.objects.get().reviewer == "user:ben"


def test_second_of_two_decisions_says_who_was_faster() -> None:
    heuristic = make_heuristic()
    ana, ben = log_in("ana"), log_in("ben")
    decide(ana, heuristic)

    html = decide(ben, heuristic, "reject", reason_code="Wrong")

    assert "it was decided before by ana at" in html
    assert "your decision changed nothing" in html
    assert Review.objects.get().decision == "approve"


def test_claim_ends_by_itself() -> None:
    heuristic = make_heuristic()
    ana, ben = make_member("ana"), make_member("ben")
    assert heuristic.current_revision is not None
    open_heuristic(heuristic, heuristic.current_revision, user_id=ana.pk)
    past = timezone.now() - timedelta(minutes=20)
    ReviewClaim.objects.update(claimed_at=past, expires_at=past + timedelta(minutes=10))

    claim = open_heuristic(heuristic, heuristic.current_revision, user_id=ben.pk)

    assert claim.user == ben
    assert approve_heuristic(heuristic, by=Actor.person(ben)).status == "approved"


def test_released_claim_is_free_for_others() -> None:
    heuristic = make_heuristic()
    ana = log_in("ana")
    page(ana, heuristic)

    assert "Released." in decide(ana, heuristic, "release")
    assert not ReviewClaim.objects.filter(heuristic=heuristic).exists()


def test_next_passes_over_what_others_are_on() -> None:
    project = make_project()
    free, claimed, decided = (make_heuristic(project=project) for _ in range(3))
    page(log_in("ben"), claimed)
    ana = log_in("ana")

    response = ana.post(
        address(decided),
        {"decision": "approve", "content_sha256": decided.current_revision.content_sha256},  # type: ignore[union-attr]
    )

    assert response["Location"] == address(free)


# ── Two reviewers ──


def test_first_of_two_approvals_is_recorded_and_serves_nothing() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    ana = log_in("ana")

    assert "your approval is the first" in page(ana, heuristic)
    html = decide(ana, heuristic)

    heuristic.refresh_from_db()
    assert "recorded as the first of two" in html
    assert (heuristic.status, served(heuristic)) == ("proposed", False)
    assert Review.objects.get().decision == "first_approval"


def test_second_approval_by_another_person_serves_it() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    decide(log_in("ana"), heuristic)
    ben = log_in("ben")

    assert "user:ana approved these words</strong>" in page(ben, heuristic)
    html = decide(ben, heuristic)

    assert "Approved. Agents get this heuristic from now on." in html
    assert served(heuristic)
    assert list(Review.objects.order_by("created_at").values_list("decision", "reviewer")) == [
        ("first_approval", "user:ana"),
        ("approve", "user:ben"),
    ]


def test_same_person_cannot_be_both_reviewers() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    ana = log_in("ana")
    decide(ana, heuristic)

    html = decide(ana, heuristic)

    assert "You approved these words already" in html
    assert not served(heuristic)
    assert 'value="approve"' not in page(ana, heuristic)


def test_edit_makes_other_words_which_need_two_approvals_again() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    ana, ben = Actor.person(make_member("ana")), Actor.person(make_member("ben"))
    approve_heuristic(heuristic, by=ana)

    edited = edit_and_approve_heuristic(heuristic, text=LessonText(trigger="x", guideline="other words"), by=ben)

    assert edited.status == "proposed"
    assert approve_heuristic(heuristic, by=ana).status == "approved"


def test_api_key_is_one_reviewer_like_a_person() -> None:
    project = make_project(four_eyes=True)
    heuristic = make_heuristic(project=project)
    key = make_api_key(project=project, client="ci", owner_id=make_member("ben").pk)
    api, path = APIClient(), f"/api/v1/heuristics/{heuristic.pk}/approve"

    first = api.post(path, {}, headers=bearer(key.token))
    again = api.post(path, {}, headers=bearer(key.token))

    assert (first.status_code, first.json()["status"]) == (200, "proposed")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_decided")
    assert approve_heuristic(heuristic, by=Actor.person(make_member("ana"))).status == "approved"


def test_key_that_a_person_made_is_the_same_reviewer() -> None:
    project = make_project(four_eyes=True)
    heuristic, ana = make_heuristic(project=project), make_member("ana")
    key = make_api_key(project=project).api_key
    type(key).objects.filter(pk=key.pk).update(created_by=ana)
    approve_heuristic(heuristic, by=Actor.person(ana))

    with pytest.raises(SecondReviewerNeeded):
        approve_heuristic(heuristic, by=Actor.key(key))


def test_keys_without_an_owner_are_nobodys_eyes() -> None:
    project = make_project(four_eyes=True)
    heuristic, ana = make_heuristic(project=project), Actor.person(make_member("ana"))
    key = Actor.key(make_api_key(project=project, client="ci").api_key)

    with pytest.raises(NotAllowed, match="create_api_key --by USERNAME"):
        approve_heuristic(heuristic, by=key)
    approve_heuristic(heuristic, by=ana)
    with pytest.raises(NotAllowed, match="create_api_key --by USERNAME"):
        approve_heuristic(heuristic, by=key)

    assert not served(heuristic)
    assert list(Review.objects.values_list("reviewer", flat=True)) == ["user:ana"]


def test_two_keys_of_one_owner_are_one_reviewer_and_of_two_owners_two() -> None:
    project = make_project(four_eyes=True)
    heuristic, ana, ben = make_heuristic(project=project), make_member("ana"), make_member("ben")
    keys = [
        Actor.key(make_api_key(project=project, client=client, owner_id=owner.pk).api_key)
        for client, owner in (("ci", ana), ("cd", ana), ("ben", ben))
    ]
    approve_heuristic(heuristic, by=keys[0])

    with pytest.raises(SecondReviewerNeeded):
        approve_heuristic(heuristic, by=keys[1])
    assert approve_heuristic(heuristic, by=keys[2]).status == "approved"


def test_actors_without_an_account_are_nobodys_eyes() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))

    with pytest.raises(NotAllowed):
        approve_heuristic(heuristic, by=Actor(label="user:somebody"))


def test_first_approval_by_nobody_lets_no_second_through_in_the_database() -> None:
    project = make_project(four_eyes=True)
    heuristic, _ben = make_heuristic(project=project), make_member("ben")
    key, revision = make_api_key(project=project, client="ci").api_key, heuristic.current_revision
    assert revision is not None
    record_review(heuristic, revision, "first_approval", Actor.key(key), "", None, "")

    with pytest.raises(IntegrityError, match="two different people"), transaction.atomic():
        HeuristicRevision.objects.filter(pk=revision.pk).update(
            approved_sha256=revision.content_sha256, approved_by="user:ben", approved_at=timezone.now(), served=True
        )


def test_policy_is_nobodys_eyes() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))

    with pytest.raises(NotAllowed, match="a policy is nobody's eyes"):
        approve_heuristic(heuristic, by=Actor.policy("quickstart-demo"))


@pytest.mark.parametrize("second", ["user:ana", "policy:nightly", "key:ci", "key:unowned", "somebody"])
def test_database_takes_no_approval_of_one_person_alone(second: str) -> None:
    project = make_project(four_eyes=True)
    heuristic, ana = make_heuristic(project=project), make_member("ana")
    key = make_api_key(project=project, client="ci").api_key
    type(key).objects.filter(pk=key.pk).update(created_by=ana)
    make_api_key(project=project, client="unowned")
    approve_heuristic(heuristic, by=Actor.person(ana))
    revision = heuristic.current_revision
    assert revision is not None

    with pytest.raises(IntegrityError, match="two different people"), transaction.atomic():
        HeuristicRevision.objects.filter(pk=revision.pk).update(
            approved_sha256=revision.content_sha256, approved_by=second, approved_at=timezone.now(), served=True
        )


def test_undone_first_approval_does_not_count() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    ana, ben = Actor.person(make_member("ana")), Actor.person(make_member("ben"))
    approve_heuristic(heuristic, by=ana)
    undo_review(Review.objects.get(), by=ana)

    assert approve_heuristic(heuristic, by=ben).status == "proposed"


# ── Text that changed ──


def test_decision_on_changed_text_shows_both_versions_and_decides_nothing() -> None:
    heuristic = make_heuristic(trigger="a refund is asked for", guideline="Check the fare class first.")
    ana = log_in("ana")
    text = LessonText(trigger="a refund is asked for", guideline="Check the cabin class first.")
    revise_heuristic(heuristic, text=text, by=Actor(label="user:ben"))

    html = decide(ana, heuristic)

    assert "Nothing was decided: the text changed after you read it" in html
    assert "You read revision 1. user:ben wrote revision 2" in html
    assert "Check the <del>fare</del><ins>cabin</ins> class first." in html
    assert not Review.objects.exists()


def test_edit_of_changed_text_keeps_what_was_typed() -> None:
    heuristic = make_heuristic()
    ana = log_in("ana")
    revise_heuristic(heuristic, text=LessonText(trigger="new", guideline="new"), by=Actor(label="user:ben"))

    html = decide(ana, heuristic, "edit", trigger="mine", guideline="my own words")

    assert "the text changed after you read it" in html
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

    assert "do not have it" in html or "Your account lacks the right" in html
    assert not Review.objects.exists()


def test_permission_to_decide_lost_after_opening_the_page_says_so() -> None:
    heuristic, user = make_heuristic(), make_member("ana")
    client = Client()
    client.force_login(user)
    page(client, heuristic)

    user.user_permissions.remove(user.user_permissions.get(codename="review_heuristic"))
    html = decide(client, heuristic)

    assert "You need the permission “review heuristics”" in html
    assert "Nothing was changed." in html
    assert not Review.objects.exists()


def test_service_refuses_who_lost_the_permission() -> None:
    user = make_member("ana", permissions=["view_heuristic"])

    with pytest.raises(NotAllowed, match="do not have the permission"):
        reject_heuristic(make_heuristic(), by=Actor.person(user))


def test_service_refuses_a_reviewer_of_another_project() -> None:
    user = make_member("ana", project=make_project())

    with pytest.raises(NotAllowed, match="not a reviewer of the project"):
        approve_heuristic(make_heuristic(), by=Actor.person(user))


def test_service_refuses_a_key_of_another_project() -> None:
    with pytest.raises(NotAllowed, match="may not review in the project"):
        approve_heuristic(make_heuristic(), by=Actor.key(make_api_key().api_key))


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
    assert "you are not a member of its project" in opened


@pytest.mark.parametrize("model", [Heuristic, Trajectory, Retrieval, Review])
def test_person_without_membership_sees_no_rows(model: Any) -> None:
    heuristic = make_heuristic(trajectory=make_trajectory())
    make_retrieval(project=heuristic.project)
    approve_heuristic(heuristic, by=Actor(label="user:x"))
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
    assert "is archived: nothing in it waits for a decision" in html
    assert not Review.objects.exists()


def test_archived_project_still_lets_harm_be_withdrawn() -> None:
    heuristic = make_heuristic(status="approved", project=make_project(archived_at=timezone.now()))

    decide(log_in("ana"), heuristic, "quarantine", reason_code="Harmful or against policy")

    assert not served(heuristic)


def test_service_refuses_to_approve_in_an_archived_project() -> None:
    with pytest.raises(ProjectArchived):
        approve_heuristic(make_heuristic(project=make_project(archived_at=timezone.now())), by=Actor(label="user:x"))


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

    assert "This heuristic or its project was deleted" in html


def test_claim_is_asked_for_in_the_service() -> None:
    heuristic = make_heuristic()
    take_over_heuristic(heuristic, by=Actor.person(make_member("ana")))

    with pytest.raises(ClaimedByOther, match="ana is deciding"):
        approve_heuristic(heuristic, by=Actor.person(make_member("ben")))
