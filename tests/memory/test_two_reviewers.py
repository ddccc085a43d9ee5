"""Approvals in projects that ask for two reviewers."""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from memory.curation.decisions import edit_and_approve_heuristic
from memory.curation.undo import undo_review
from memory.errors import NotAllowed, SecondReviewerNeeded
from memory.heuristics.models import HeuristicRevision
from memory.heuristics.text import HeuristicText
from memory.projects.actors import Actor
from memory.review.decisions import record_review
from memory.review.models import Review
from tests.desk.desk_pages import decide, log_in, page, served
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

pytestmark = pytest.mark.django_db


def test_first_of_two_approvals_is_recorded_and_serves_nothing() -> None:
    ana = log_in("ana")
    heuristic = make_heuristic(project=make_project(four_eyes=True))

    assert "your approval is the first" in page(ana, heuristic)
    html = decide(ana, heuristic)

    heuristic.refresh_from_db()
    assert "recorded as the first of two" in html
    assert (heuristic.status, served(heuristic)) == ("proposed", False)
    assert Review.objects.get().decision == "first_approval"


def test_second_approval_by_another_person_serves_it() -> None:
    ana, ben = log_in("ana"), log_in("ben")
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    decide(ana, heuristic)

    assert "ana approved this wording</strong>" in page(ben, heuristic)
    html = decide(ben, heuristic)

    assert "Approved. Agents get this lesson from now on." in html
    assert served(heuristic)
    assert list(Review.objects.order_by("created_at").values_list("decision", "reviewer")) == [
        ("first_approval", "user:ana"),
        ("approve", "user:ben"),
    ]


def test_same_person_cannot_be_both_reviewers() -> None:
    ana = log_in("ana")
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    decide(ana, heuristic)

    html = decide(ana, heuristic)

    assert "You have already approved this wording" in html
    assert not served(heuristic)
    assert 'value="approve"' not in page(ana, heuristic)


def test_edit_makes_other_words_which_need_two_approvals_again() -> None:
    ana, ben = Actor.person(make_member("ana")), Actor.person(make_member("ben"))
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    approve_as_read(heuristic, by=ana)

    words = HeuristicText(trigger="x", guideline="other words")
    edited = edit_and_approve_heuristic(heuristic, text=words, by=ben, content_sha256=read(heuristic))

    assert edited.status == "proposed"
    assert approve_as_read(heuristic, by=ana).status == "approved"


def test_api_key_is_one_reviewer_like_a_person() -> None:
    project, ana = make_project(), make_member("ana")
    heuristic = make_heuristic(project=project)
    key = make_api_key(project=project, client="ci", owner_id=make_member("ben").pk)
    require_two(project)
    api, path = APIClient(), f"/api/v1/heuristics/{heuristic.pk}/approve"

    first = api.post(path, {"content_sha256": read(heuristic)}, headers=bearer(key.token))
    again = api.post(path, {"content_sha256": read(heuristic)}, headers=bearer(key.token))

    assert (first.status_code, first.json()["status"]) == (200, "proposed")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_decided")
    assert approve_as_read(heuristic, by=Actor.person(ana)).status == "approved"


def test_key_that_a_person_made_is_the_same_reviewer() -> None:
    project = make_project()
    heuristic, ana = make_heuristic(project=project), make_member("ana")
    key = make_api_key(project=project).api_key
    type(key).objects.filter(pk=key.pk).update(created_by=ana)
    require_two(project)
    approve_as_read(heuristic, by=Actor.person(ana))

    with pytest.raises(SecondReviewerNeeded):
        approve_as_read(heuristic, by=Actor.key(key))


def test_keys_without_an_owner_are_nobodys_eyes() -> None:
    project = make_project()
    heuristic, ana = make_heuristic(project=project), Actor.person(make_member("ana"))
    key = Actor.key(make_api_key(project=project, client="ci").api_key)
    require_two(project)

    with pytest.raises(NotAllowed, match="create_api_key --by USERNAME"):
        approve_as_read(heuristic, by=key)
    approve_as_read(heuristic, by=ana)
    with pytest.raises(NotAllowed, match="create_api_key --by USERNAME"):
        approve_as_read(heuristic, by=key)

    assert not served(heuristic)
    assert list(Review.objects.values_list("reviewer", flat=True)) == ["user:ana"]


def test_key_of_an_inactive_owner_does_not_count() -> None:
    project = make_project()
    heuristic, ana, ben = make_heuristic(project=project), make_member("ana"), make_member("ben")
    key = Actor.key(make_api_key(project=project, client="ci", owner_id=ben.pk).api_key)
    require_two(project)
    approve_as_read(heuristic, by=Actor.person(ana))
    type(ben).objects.filter(pk=ben.pk).update(is_active=False)
    revision = heuristic.revisions.all()

    with pytest.raises(NotAllowed, match="no longer have an active account"):
        approve_as_read(heuristic, by=key)
    with pytest.raises(IntegrityError, match="two different people"), transaction.atomic():
        revision.update(
            approved_sha256=revision.get().content_sha256, approved_by="key:ci", approved_at=timezone.now(), served=True
        )

    assert not served(heuristic)


def test_two_keys_of_one_owner_are_one_reviewer_and_of_two_owners_two() -> None:
    project = make_project()
    heuristic, ana, ben = make_heuristic(project=project), make_member("ana"), make_member("ben")
    keys = [
        Actor.key(make_api_key(project=project, client=client, owner_id=owner.pk).api_key)
        for client, owner in (("ci", ana), ("cd", ana), ("ben", ben))
    ]
    require_two(project)
    approve_as_read(heuristic, by=keys[0])

    with pytest.raises(SecondReviewerNeeded):
        approve_as_read(heuristic, by=keys[1])
    assert approve_as_read(heuristic, by=keys[2]).status == "approved"


def test_actors_without_an_account_are_nobodys_eyes() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))

    with pytest.raises(NotAllowed):
        approve_as_read(heuristic, by=Actor(label="user:somebody"))


def test_first_approval_by_nobody_lets_no_second_through_in_the_database() -> None:
    project = make_project()
    heuristic, _ben = make_heuristic(project=project), make_member("ben")
    key, revision = make_api_key(project=project, client="ci").api_key, heuristic.current_revision
    assert revision is not None
    require_two(project)
    record_review(heuristic, revision, "first_approval", by=Actor.key(key))

    with pytest.raises(IntegrityError, match="two different people"), transaction.atomic():
        HeuristicRevision.objects.filter(pk=revision.pk).update(
            approved_sha256=revision.content_sha256, approved_by="user:ben", approved_at=timezone.now(), served=True
        )


def test_policy_does_not_count_as_a_reviewer() -> None:
    heuristic = make_heuristic(project=make_project(four_eyes=True))

    with pytest.raises(NotAllowed, match="a policy does not count"):
        approve_as_read(heuristic, by=Actor.policy("quickstart-demo"))


@pytest.mark.parametrize("second", ["user:ana", "policy:nightly", "key:ci", "key:unowned", "somebody"])
def test_database_takes_no_approval_of_one_person_alone(second: str) -> None:
    project = make_project()
    heuristic, ana = make_heuristic(project=project), make_member("ana")
    key = make_api_key(project=project, client="ci").api_key
    type(key).objects.filter(pk=key.pk).update(created_by=ana)
    make_api_key(project=project, client="unowned")
    require_two(project)
    approve_as_read(heuristic, by=Actor.person(ana))
    revision = heuristic.current_revision
    assert revision is not None

    with pytest.raises(IntegrityError, match="two different people"), transaction.atomic():
        HeuristicRevision.objects.filter(pk=revision.pk).update(
            approved_sha256=revision.content_sha256, approved_by=second, approved_at=timezone.now(), served=True
        )


def test_undone_first_approval_does_not_count() -> None:
    ana, ben = Actor.person(make_member("ana")), Actor.person(make_member("ben"))
    heuristic = make_heuristic(project=make_project(four_eyes=True))
    approve_as_read(heuristic, by=ana)
    undo_review(Review.objects.get(), by=ana)

    assert approve_as_read(heuristic, by=ben).status == "proposed"
