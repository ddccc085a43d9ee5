"""The kill switch: everything learnt from a key stops being served at once (reliability D3)."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from memory.curation.evidence import add_evidence
from memory.curation.proposals import restore_revision
from memory.errors import CoveredByOrder
from memory.groups import MEMORY_PERMISSIONS, grant_permissions
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import Citation
from memory.index.heuristic_vectors import embed_heuristics
from memory.intake.open_runs import finish_run
from memory.intake.recording import RunSender, record_trajectory
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.projects.api_keys import NewApiKey
from memory.projects.models import Project, ProjectMembership
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from memory.review.models import Review
from memory.trust.models import QuarantineOrder
from memory.trust.quarantine import lift_order, quarantine_source
from tests.factories import (
    approve_as_read,
    approve_card_as_read,
    make_api_key,
    make_evidence,
    make_heuristic,
    make_project,
    make_retrieval,
    make_trajectory,
)
from tests.security.test_invariants import CARD

pytestmark = pytest.mark.django_db

OPERATOR = Actor(label="user:ops")
AGENT = Actor(label="key:agent")


def learn(project: Project, key: NewApiKey | None = None, **text: Any) -> Heuristic:
    """Make a served lesson from a run that `key` recorded."""
    run = make_trajectory(
        project=project, api_key=key.api_key if key else None, client=key.api_key.client if key else ""
    )
    heuristic = make_heuristic(trajectory=run, status="approved", **text)
    embed_heuristics([heuristic.pk])
    return heuristic


def served(project: Project) -> set[str]:
    return {item["id"] for item in retrieve(Question(project=project, task="Cancel a reservation", by=AGENT)).items}


@pytest.mark.parametrize("hours_off", [-1, 1], ids=["behind", "ahead"])
def test_local_clocks_do_not_matter(hours_off: int) -> None:
    project = make_project()
    key = make_api_key(project=project, client="mallory")
    wrong_clock = timezone.now() + timedelta(hours=hours_off)
    with time_machine.travel(wrong_clock, tick=True):
        lesson = learn(project, key)
    Heuristic.objects.filter(pk=lesson.pk).update(client="another")  # what counts is when the run was recorded
    call_command("quarantine", key=key.api_key.prefix, since="30m", dry_run=True, stdout=(said := StringIO()))
    with time_machine.travel(wrong_clock, tick=True):
        call_command("quarantine", key=key.api_key.prefix, since="30m", stdout=StringIO())

    assert said.getvalue().startswith("Would look at 1 lesson,")
    assert served(project) == set()


def test_lessons_of_a_key_are_withdrawn_and_others_stay() -> None:
    project = make_project()
    poisoned = learn(project, make_api_key(project=project, client="mallory"))
    honest = learn(project, make_api_key(project=project), guideline="Name the fee before a reservation is cancelled.")
    before = served(project)

    key = poisoned.evidence.get().trajectory.api_key
    done = quarantine_source(project, api_key=key, since=timezone.now() - timedelta(hours=1), by=OPERATOR)

    assert before == {str(poisoned.pk), str(honest.pk)}
    assert served(project) == {str(honest.pk)}
    assert done.heuristic_ids == (poisoned.pk,)
    assert Review.objects.get(decision="quarantine").reviewer == "user:ops"


def test_answers_that_carried_it_are_listed_and_no_others() -> None:
    project = make_project()
    key = make_api_key(project=project)
    learn(project, guideline="Name the fee before a reservation is cancelled.")
    retrieve(Question(project=project, task="Before it was learnt", by=AGENT, request_id="before"))
    poisoned = learn(project, key)
    answer = retrieve(Question(project=project, task="Cancel a reservation", by=AGENT, request_id="carried"))
    retrieve(Question(project=project, task="Nothing asked for", top_k=0, by=AGENT, request_id="empty"))

    done = quarantine_source(project, api_key=key.api_key, since=timezone.now() - timedelta(hours=1), by=OPERATOR)

    assert [(each.retrieval_id, each.request_id) for each in done.carried] == [(answer.retrieval_id, "carried")]
    assert done.carried[0].heuristic_ids == (poisoned.pk,)
    assert QuarantineOrder.objects.get().retrieval_count == 1


def test_lesson_with_other_evidence_also_goes_back_to_review() -> None:
    project = make_project()
    key = make_api_key(project=project)
    heuristic = learn(project)
    add_evidence(
        heuristic,
        make_trajectory(project=project, api_key=key.api_key),
        citations=[Citation(first_step=1, last_step=1)],
    )

    quarantine_source(project, api_key=key.api_key, since=timezone.now() - timedelta(hours=1), by=OPERATOR)

    heuristic.refresh_from_db()
    assert heuristic.status == Heuristic.Status.QUARANTINED


def test_proposals_and_rewordings_of_a_client_are_included() -> None:
    project = make_project()
    proposed = make_heuristic(project=project, client="mallory")
    reworded = make_heuristic(project=project, status="approved", created_by="key:mallory")

    done = quarantine_source(project, client="mallory", since=timezone.now() - timedelta(hours=1), by=OPERATOR)

    assert set(done.heuristic_ids) == {proposed.pk, reworded.pk}
    assert not HeuristicRevision.objects.served().exists()


def test_what_was_learnt_before_stays() -> None:
    project = make_project()
    key = make_api_key(project=project)
    learn(project, key)

    done = quarantine_source(project, api_key=key.api_key, since=timezone.now() + timedelta(seconds=1), by=OPERATOR)

    assert done.heuristic_ids == ()
    assert len(served(project)) == 1


def test_only_a_review_after_the_lifting_brings_it_back() -> None:
    project = make_project()
    key = make_api_key(project=project)
    heuristic = learn(project, key)
    done = quarantine_source(project, api_key=key.api_key, since=timezone.now() - timedelta(hours=1), by=OPERATOR)
    again = restore_revision(heuristic, revision=heuristic.revisions.get(), by=OPERATOR)
    with pytest.raises(CoveredByOrder, match=f"order {done.order.pk} covers these words"):
        approve_as_read(again, by=OPERATOR)

    lift_order(done.order, by=OPERATOR, reason="It was sound.")
    waiting = served(project)
    approve_as_read(again, by=OPERATOR)
    embed_heuristics([heuristic.pk])

    assert waiting == set()
    assert served(project) == {str(heuristic.pk)}


def test_words_that_were_added_to_an_open_run_count_from_when_they_came() -> None:
    project = make_project()
    key = make_api_key(project=project, client="mallory")
    begun = timezone.now() - timedelta(hours=2)
    run = make_trajectory(
        project=project, api_key=key.api_key, client="mallory", created_at=begun, is_open=True, mistake_cards=[CARD]
    )
    finish_run(run, ending={"summary": "Poison."}, by=Actor.key(key.api_key), reflect=False)
    written = make_heuristic(trajectory=run, status="approved")
    supported = make_heuristic(project=project, status="approved", guideline="Words of somebody else.")
    make_evidence(heuristic=supported, trajectory=run)
    approve_card_as_read(MistakeCard.objects.get(), by=OPERATOR)

    done = quarantine_source(project, api_key=key.api_key, since=timezone.now() - timedelta(hours=1), by=OPERATOR)

    assert {*done.heuristic_ids} == {written.pk, supported.pk}
    assert done.card_ids == (MistakeCard.objects.get().pk,)


def test_mistake_card_in_the_words_of_the_source_is_retired() -> None:
    project = make_project()
    key = make_api_key(project=project).api_key
    record_trajectory(
        project,
        data={"task": "t", "mistake_cards": [CARD]},
        by=AGENT,
        reflect=False,
        sender=RunSender(client=key.client, api_key=key),
    )
    card = approve_card_as_read(MistakeCard.objects.get(), by=OPERATOR)

    done = quarantine_source(project, api_key=key, since=timezone.now() - timedelta(hours=1), by=OPERATOR)

    assert done.card_ids == (card.pk,)
    assert not HeuristicRevision.objects.of_mistakes().served().exists()


def test_key_of_another_project_is_refused() -> None:
    with pytest.raises(ValueError, match="of this project"):
        quarantine_source(make_project(), api_key=make_api_key().api_key, since=timezone.now(), by=OPERATOR)


def test_command_quarantines_revokes_and_reports() -> None:
    project = make_project()
    key = make_api_key(project=project)
    heuristic = learn(project, key)
    output = StringIO()

    call_command("quarantine", "--key", key.api_key.prefix, "--since", "2h", "--revoke", "--json", stdout=output)

    key.api_key.refresh_from_db()
    assert json.loads(output.getvalue())["heuristics"] == [str(heuristic.pk)]
    assert key.api_key.revoked_at is not None
    assert served(project) == set()


@pytest.mark.parametrize("since", ["yesterday", "5w", "2026-13-01T00:00Z"])
def test_command_refuses_an_invalid_time(since: str) -> None:
    key = make_api_key()

    with pytest.raises(CommandError, match="is not a time"):
        call_command("quarantine", "--key", key.api_key.prefix, "--since", since)


def test_command_refuses_a_client_without_contributions() -> None:
    key = make_api_key(client="bot")

    with pytest.raises(CommandError, match="Clients with keys: bot"):
        call_command("quarantine", "--client", "bott", "--project", key.api_key.project.slug, "--since", "24h")

    assert not QuarantineOrder.objects.exists()


def test_command_lists_the_answers_of_an_order_again() -> None:
    project = make_project()
    key = make_api_key(project=project)
    heuristic = learn(project, key)
    order = quarantine_source(
        project, api_key=key.api_key, since=timezone.now() - timedelta(hours=1), by=OPERATOR
    ).order
    late = make_retrieval(project=project, heuristic_ids=[heuristic.pk])  # was being answered at that moment
    output = StringIO()

    call_command("quarantine", "--list", str(order.pk), stdout=output)

    assert str(late.pk) in output.getvalue()


@pytest.mark.parametrize(("group", "status"), [("Operator", "quarantined"), ("Auditor", "approved")])
def test_operator_quarantines_a_key_in_the_admin(client: Client, group: str, status: str) -> None:
    # Again, because a test that commits empties the table.
    grant_permissions(apps, "memory", MEMORY_PERMISSIONS)
    project = make_project()
    key = make_api_key(project=project)
    heuristic = learn(project, key)
    person = User.objects.create_user(f"{group}@example.com", is_staff=True)
    person.groups.add(Group.objects.get(name=group))
    ProjectMembership.objects.create(user=person, project=project, role=group.lower())
    client.force_login(person)

    client.post(
        "/admin/memory/apikey/", {"action": "quarantine_day", "_selected_action": [str(key.api_key.pk)]}, follow=True
    )

    heuristic.refresh_from_db()
    assert heuristic.status == status


def make_operator(project: Project) -> User:
    grant_permissions(apps, "memory", MEMORY_PERMISSIONS)  # again, because a test that commits empties the table
    person = User.objects.create_user("ops@example.com", is_staff=True)
    person.groups.add(Group.objects.get(name="Operator"))
    ProjectMembership.objects.create(user=person, project=project, role="operator")
    return person


def test_page_of_an_order_lists_what_it_covers_and_the_answers(client: Client) -> None:
    project = make_project()
    key = make_api_key(project=project)
    heuristic = learn(project, key)
    answer = retrieve(Question(project=project, task="Cancel a reservation", by=AGENT))
    done = quarantine_source(project, api_key=key.api_key, since=timezone.now() - timedelta(hours=1), by=OPERATOR)
    client.force_login(make_operator(project))

    page = client.get(f"/admin/memory/quarantineorder/{done.order.pk}/change/").content.decode()

    assert f"/admin/memory/heuristic/{heuristic.pk}/change/" in page
    assert f"/admin/memory/retrieval/{answer.retrieval_id}/change/" in page


@pytest.mark.parametrize(("member", "lifted"), [(True, 1), (False, 0)])
def test_operator_of_the_project_lifts_an_order_in_the_admin(client: Client, member: bool, lifted: int) -> None:
    project = make_project()
    key = make_api_key(project=project)
    learn(project, key)
    done = quarantine_source(project, api_key=key.api_key, since=timezone.now() - timedelta(hours=1), by=OPERATOR)
    client.force_login(make_operator(project if member else make_project()))

    client.post(
        "/admin/memory/quarantineorder/", {"action": "lift", "_selected_action": [str(done.order.pk)]}, follow=True
    )

    assert done.order.lifts.count() == lifted
