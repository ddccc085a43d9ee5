"""Decisions cannot be changed without a trace, not even by the owner of the database (reliability C9)."""

from collections.abc import Callable
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.curation.decisions import reject_heuristic
from memory.heuristics.models import HeuristicRevision
from memory.intake.recording import record_trajectory
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.projects.api_keys import revoke_api_key
from memory.projects.models import ApiKey
from memory.review.models import Review
from memory.trust.audit import Head, verify_audit
from memory.trust.erasure import erase_trajectory
from memory.trust.models import AuditEntry
from tests.factories import (
    approve_as_read,
    approve_card_as_read,
    make_api_key,
    make_heuristic,
    make_member,
    make_project,
    make_trajectory,
)
from tests.security.threads import run_in_threads

pytestmark = pytest.mark.django_db

ANA = Actor(label="user:ana")


def write_entries() -> None:
    """Let the deferred triggers run, as they would at the commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


def as_superuser(statement: str, *parameters: Any) -> None:
    """Change rows with every trigger off, which only the owner of the server can do."""
    write_entries()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, parameters)
        cursor.execute("SET LOCAL session_replication_role = origin")


@pytest.fixture
def decided() -> Any:
    """A project with a few decisions and a key."""
    project = make_project()
    make_api_key(project=project)
    for number in range(3):
        approve_as_read(make_heuristic(project=project, trigger=f"Trigger {number}"), by=ANA, reason="Right.")
    reject_heuristic(make_heuristic(project=project), by=ANA, reason="Wrong.")
    write_entries()
    return project


def test_every_decision_and_key_leaves_an_entry(decided: Any) -> None:
    kinds = list(AuditEntry.objects.filter(project_id=decided.pk).order_by("number").values_list("kind", flat=True))

    assert sorted(kinds) == ["key_insert", *["review"] * 4, *["served"] * 3]
    assert verify_audit().faults == []


def test_entry_names_the_actor_and_holds_no_text(decided: Any) -> None:
    key = ApiKey.objects.get(project=decided)
    revoke_api_key(key, by=ANA)
    write_entries()

    entry = AuditEntry.objects.filter(kind="key_update").get()
    everything = " ".join(AuditEntry.objects.values_list("content", flat=True))
    assert '"actor": "user:ana"' in entry.content
    assert "Trigger" not in everything
    assert "Right." not in everything


def test_entry_of_a_key_revoked_in_the_admin_names_the_person(admin_client: Client, decided: Any) -> None:
    key = ApiKey.objects.get(project=decided)
    form = {"action": "revoke", "_selected_action": str(key.pk)}
    admin_client.post(reverse("admin:memory_apikey_changelist"), form)
    write_entries()

    entry = AuditEntry.objects.filter(kind="key_update").get()
    assert '"actor": "user:admin"' in entry.content


def test_change_of_a_keys_owner_leaves_an_entry(decided: Any) -> None:
    owner = make_member("ben")
    ApiKey.objects.update(created_by=owner)
    write_entries()

    entry = AuditEntry.objects.filter(kind="key_update").get()
    assert f'"owner": {owner.pk}' in entry.content
    assert verify_audit().faults == []


def test_use_of_a_key_is_no_change_of_it(decided: Any) -> None:
    before = AuditEntry.objects.count()
    ApiKey.objects.update(last_used_at=timezone.now())
    write_entries()

    assert AuditEntry.objects.count() == before


def test_raw_sql_that_serves_something_leaves_an_entry() -> None:
    heuristic = make_heuristic()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE memory_heuristicrevision SET approved_sha256 = content_sha256, approved_by = 'x', "
            "approved_at = now(), served = true WHERE heuristic_id = %s",
            [heuristic.pk],
        )
    write_entries()

    assert AuditEntry.objects.get(kind="served").subject_id == heuristic.current_revision_id


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("UPDATE memory_review SET reason = 'I was never here.'", "the review was changed"),
        ("UPDATE memory_heuristicrevision SET served = false", "it is not served"),
    ],
)
def test_change_of_a_decided_mistake_card_is_found(change: str, fault: str) -> None:
    data = {"task": "Cancel", "mistake_cards": [{"mistake_type": "wrong_fare", "lesson": "24 hours only."}]}
    record_trajectory(make_project(), data=data, by=ANA, reflect=False)
    approve_card_as_read(MistakeCard.objects.get(), by=ANA)
    write_entries()
    assert verify_audit().faults == []

    as_superuser(change)

    assert fault in str(verify_audit().faults)


@pytest.mark.parametrize("change", ["UPDATE memory_auditentry SET content = 'x'", "DELETE FROM memory_auditentry"])
def test_entries_cannot_be_changed(decided: Any, change: str) -> None:
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)


TAMPERINGS: dict[str, tuple[str, str]] = {
    "a content": (
        "UPDATE memory_auditentry SET content = replace(content, 'user:ana', 'user:bob') WHERE number = 3",
        "its content does not match its hash",
    ),
    "a content with its hash": (
        (
            "UPDATE memory_auditentry SET content = replace(content, 'user:ana', 'user:bob'), sha256 = encode(sha256("
            "convert_to(previous_sha256 || E'\\n' || replace(content, 'user:ana', 'user:bob'), 'UTF8')), 'hex') "
            "WHERE number = 3"
        ),
        "it does not follow from the entry before it",
    ),
    "an entry taken out": ("DELETE FROM memory_auditentry WHERE number = 4", "entry 4 is missing"),
    "a kind": ("UPDATE memory_auditentry SET kind = 'erasure' WHERE number = 5", "its columns do not match"),
    "a decision": ("UPDATE memory_review SET reason = 'I was never here.'", "the review was changed"),
    "a reviewer": ("UPDATE memory_review SET reviewer = 'user:bob'", "the review was changed"),
    "a review taken out": (
        "DELETE FROM memory_review WHERE decision = 'reject'",
        "the review is missing, and no erasure removed it",
    ),
    "a review put in": (
        (
            "INSERT INTO memory_review (id, project_id, kind, subject_id, revision_id, decision, content_sha256, "
            "reason, reviewer, request_id, created_at) SELECT gen_random_uuid(), project_id, kind, subject_id, "
            "revision_id, "
            "'approve', content_sha256, '', 'user:ana', '', now() FROM memory_review WHERE decision = 'reject'"
        ),
        "the review has no entry",
    ),
    "a service": ("UPDATE memory_heuristicrevision SET served = false WHERE served", "it is not served"),
    "a key's owner": (
        (
            "WITH u AS (INSERT INTO auth_user (username, password, first_name, last_name, email, is_superuser, "
            "is_staff, is_active, date_joined) VALUES ('eve', '', '', '', '', false, true, true, now()) RETURNING id) "
            "UPDATE memory_apikey SET created_by_id = u.id FROM u"
        ),
        "the key differs",
    ),
    "a key": ("UPDATE memory_apikey SET scopes = '{review}'", "the key differs"),
}


@pytest.mark.parametrize("what", sorted(TAMPERINGS))
def test_tampering_with_the_triggers_off_is_found(decided: Any, what: str) -> None:
    statement, told = TAMPERINGS[what]
    as_superuser(statement)

    assert any(told in fault.message for fault in verify_audit().faults)


def test_truncated_chain_is_found_by_a_recorded_head(decided: Any) -> None:
    head = verify_audit().heads[0]
    as_superuser("DELETE FROM memory_auditentry WHERE number = %s", head.number)
    as_superuser("DELETE FROM memory_review WHERE decision = 'reject'")

    assert [fault.message for fault in verify_audit(heads=[head]).faults] == ["the end of the chain is missing"]


def test_rewritten_chain_is_found_by_a_recorded_head(decided: Any) -> None:
    noted = verify_audit().heads[0]
    wrong = Head(project_id=noted.project_id, number=noted.number, sha256="f" * 64)

    assert "rewritten" in verify_audit(heads=[wrong]).faults[0].message


def test_erasure_takes_reviews_without_a_fault() -> None:
    run = make_trajectory()
    approve_as_read(make_heuristic(trajectory=run), by=ANA)
    write_entries()

    erase_trajectory(run, by=ANA)
    write_entries()

    assert not Review.objects.exists()
    assert verify_audit().faults == []


@pytest.mark.django_db(transaction=True)
def test_command_exits_1_with_the_broken_place() -> None:
    heuristic = make_heuristic()
    approve_as_read(heuristic, by=ANA)
    call_command("verify_audit", stdout=StringIO())
    with transaction.atomic():
        as_superuser("UPDATE memory_review SET reviewer = 'user:bob'")
    output = StringIO()

    with pytest.raises(CommandError) as raised:
        call_command("verify_audit", stdout=output)

    assert raised.value.returncode == 1
    assert f"project {heuristic.project_id}, entry " in output.getvalue()


@pytest.mark.django_db(transaction=True)
def test_decisions_at_the_same_moment_make_one_chain() -> None:
    project = make_project()
    heuristics = [make_heuristic(project=project, trigger=f"Trigger {number}") for number in range(12)]
    decide: list[Callable[[], object]] = [partial(approve_as_read, one, by=ANA) for one in heuristics]

    errors = run_in_threads(decide, at_once=4)

    report = verify_audit()
    assert errors == []
    assert (report.faults, report.heads[0].number) == ([], 2 * len(heuristics))
    assert HeuristicRevision.objects.served().count() == len(heuristics)
