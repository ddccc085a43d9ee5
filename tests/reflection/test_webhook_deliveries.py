"""Webhooks are signed, delivered at least once, retried from rows, and sent to no address they must not reach."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as live_settings
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now
from django.utils import timezone
from standardwebhooks import WebhookVerificationError

from erl_site.diagnosis.running import check_sealed_secrets
from memory.curation.decisions import approve_heuristic
from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from reflection.jobs.execution import Outcome
from reflection.jobs.models import Job
from reflection.webhooks import transport
from reflection.webhooks.delivery import (
    DISABLED_AFTER,
    MOST_ATTEMPTS,
    RETRY_SECONDS,
    delete_old_deliveries,
    run_delivery,
)
from reflection.webhooks.endpoints import (
    SecretsLimited,
    add_secret,
    disable_endpoint,
    enable_endpoint,
    retire_secret,
    send_again,
    send_test,
)
from reflection.webhooks.models import WebhookDelivery, WebhookEndpoint
from reflection.webhooks.sealing import seal_webhooks
from tests.factories import make_project
from tests.reflection.webhooks import BY, TAKEN, Hook, answers, deliver, make_hook, only_delivery, propose
from tests.scripted_answers import Exchange, raw, redirects, resets, silence
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.django_db
Status = Job.Status


@pytest.fixture
def receiver(settings: Any) -> Iterator[ScriptedProvider]:
    settings.ERL_HTTP_HOSTS = ["127.0.0.1"]
    with ScriptedProvider(otherwise=TAKEN) as receiver:
        yield receiver


@pytest.fixture
def hook(receiver: ScriptedProvider) -> Hook:
    return make_hook(receiver)


class Regret(Exception):
    """Takes a transaction back."""


def propose_and_regret(project: Project) -> None:
    with transaction.atomic():
        propose(project, guideline="Never mind.")
        raise Regret


def garbage(exchange: Exchange) -> None:
    """Answer something that is no HTTP."""
    exchange.handler.wfile.write(b"\x16\x03\x01 what?\r\n\r\n")
    exchange.handler.close_connection = True


# ── Signatures ────────────────────────────────────────────────────────────────────────────────────────────────────
def test_reference_library_verifies_the_signature(hook: Hook) -> None:
    lesson = propose(hook.project)

    assert deliver() == Outcome.DONE

    said = hook.verified()
    assert said["type"] == "proposal.waiting"
    assert said["data"] == {
        "project": hook.project.slug,
        "lessons": [{"id": str(lesson.pk)}],
        "waiting": 1,
        "link": f"https://erl.example.com/admin/memory/heuristic/{lesson.pk}/change/",
    }
    assert (only_delivery().status, only_delivery().status_code) == (Status.DONE, 200)


def test_signature_of_another_webhook_is_refused(hook: Hook, receiver: ScriptedProvider) -> None:
    other = make_hook(receiver, project=hook.project, events=[])
    propose(hook.project)
    deliver()

    with pytest.raises(WebhookVerificationError):
        hook.verified(secret=other.secret)


def test_every_secret_in_use_verifies_and_no_retired_one(hook: Hook) -> None:
    second = add_secret(hook.endpoint, by=BY).secret
    propose(hook.project)
    deliver()
    assert hook.verified() == hook.verified(secret=second)

    retire_secret(hook.endpoint.secrets.earliest("created_at"), by=BY)
    propose(hook.project)
    deliver()

    hook.verified(secret=second)
    with pytest.raises(WebhookVerificationError):
        hook.verified()


def test_last_secret_cannot_be_retired(hook: Hook) -> None:
    with pytest.raises(SecretsLimited):
        retire_secret(hook.endpoint.secrets.get(), by=BY)


def test_secret_outlives_a_rotation_of_the_secret_key(hook: Hook, settings: Any) -> None:
    former, settings.SECRET_KEY = live_settings.SECRET_KEY, "n" * 50
    settings.SECRET_KEY_FALLBACKS = [former]
    propose(hook.project)
    deliver()

    assert hook.verified()["type"] == "proposal.waiting"


def test_sealed_again_a_webhook_outlives_the_former_secret_key(hook: Hook, settings: Any) -> None:
    former, settings.SECRET_KEY = live_settings.SECRET_KEY, "n" * 50
    settings.SECRET_KEY_FALLBACKS = [former]
    assert [result.status for result in check_sealed_secrets()] == ["warning"]
    assert seal_webhooks() == 2  # its secret and its address
    assert seal_webhooks() == 0
    assert [*check_sealed_secrets()] == []
    settings.SECRET_KEY_FALLBACKS = []
    propose(hook.project)

    deliver()

    assert hook.verified()["type"] == "proposal.waiting"


def test_secret_of_release_1_is_sealed_and_stays_the_same(hook: Hook, settings: Any) -> None:
    hook.endpoint.secrets.update(sealed=None)

    assert seal_webhooks() == 1

    hook.endpoint.secrets.update(salt="")
    propose(hook.project)
    deliver()
    assert hook.verified()["type"] == "proposal.waiting"


def stored_address(hook: Hook) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT url FROM reflection_webhookendpoint WHERE id = %s", [hook.endpoint.pk])
        return str(cursor.fetchone()[0])


def test_address_is_stored_with_its_host_alone_readable(hook: Hook) -> None:
    assert stored_address(hook).startswith(f"http://127.0.0.1:{hook.receiver.port}/sealed:")
    assert "/hook" not in stored_address(hook)
    assert WebhookEndpoint.objects.get().url == f"http://127.0.0.1:{hook.receiver.port}/hook"


def test_address_of_release_1_is_sealed_a_day_after_its_migration(hook: Hook) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE reflection_webhookendpoint SET url = 'https://hooks.example.com/services/T0'")
        cursor.execute("UPDATE django_migrations SET applied = now() - interval '9 days' WHERE name = '0001_initial'")
    assert (seal_webhooks(), stored_address(hook)) == (0, "https://hooks.example.com/services/T0")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_migrations SET applied = now() - interval '25 hours' WHERE name LIKE '%\\_sealing'"
        )

    assert seal_webhooks() == 1

    assert stored_address(hook).startswith("https://hooks.example.com/sealed:")
    assert WebhookEndpoint.objects.get().url == "https://hooks.example.com/services/T0"


def test_address_of_a_lost_key_is_named_as_the_reason(hook: Hook, settings: Any) -> None:
    settings.SECRET_KEY = "n" * 50
    add_secret(hook.endpoint, by=BY)
    propose(hook.project)

    assert deliver() == Outcome.RETRY

    assert [result.status for result in check_sealed_secrets()] == ["failure"]
    assert "Enter it again on the webhook's page" in only_delivery().last_error


def test_secret_of_a_lost_key_is_named_as_the_reason(hook: Hook, settings: Any) -> None:
    settings.SECRET_KEY = "n" * 50
    propose(hook.project)

    assert deliver() == Outcome.RETRY

    assert hook.receiver.requests == []
    assert "ERL_SECRET_KEY has changed" in only_delivery().last_error


# ── Delivered at least once ───────────────────────────────────────────────────────────────────────────────────────
def test_failed_delivery_is_tried_again_under_the_same_id(hook: Hook) -> None:
    hook.receiver.script(answers(500), TAKEN)
    propose(hook.project)

    assert deliver() == Outcome.RETRY
    failed = only_delivery()
    assert (failed.last_error, failed.status_code) == ("It answered 500.", 500)
    assert timedelta(seconds=2) < failed.available_at - timezone.now() < timedelta(seconds=RETRY_SECONDS[0] + 2)

    assert deliver() == Outcome.DONE
    assert len(hook.receiver.requests) == 2
    assert len(set(hook.ids())) == 1
    hook.endpoint.refresh_from_db()
    assert (hook.endpoint.failing_since, hook.endpoint.rests_until) == (None, None)


def test_receiver_is_not_asked_before_the_time_it_names(hook: Hook) -> None:
    hook.receiver.script(answers(429, Retry_After="1800"))
    propose(hook.project)

    deliver()

    hook.endpoint.refresh_from_db()
    assert only_delivery().available_at - timezone.now() > timedelta(seconds=1750)
    assert hook.endpoint.rests_until is not None
    assert hook.endpoint.rests_until - timezone.now() > timedelta(seconds=1750)


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (silence(), "timeout"),
        (resets(), "connection"),
        (answers(404), "http_404"),
        (answers(503), "http_503"),
        (redirects("http://10.0.0.1/"), "http_302"),
        (garbage, "connection"),
    ],
    ids=["hangs", "resets", "not found", "overloaded", "redirects", "garbage"],
)
def test_failure_is_named_and_tried_again(hook: Hook, behaviour: Any, code: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(transport, "TIMEOUT_SECONDS", 1.0)
    hook.receiver.script(behaviour)
    propose(hook.project)

    assert deliver() == Outcome.RETRY

    assert only_delivery().last_error_code == code
    assert len(hook.receiver.requests) == 1


def test_long_answer_is_not_read(hook: Hook) -> None:
    hook.receiver.script(raw(b"x" * 50_000_000))
    propose(hook.project)

    assert deliver() == Outcome.DONE


def test_message_is_given_up_after_its_last_attempt(hook: Hook) -> None:
    hook.receiver.script(answers(500))
    propose(hook.project)
    Job.objects.update(attempts=MOST_ATTEMPTS - 1)

    assert deliver() == Outcome.DEAD


def test_other_messages_wait_while_the_receiver_fails(hook: Hook) -> None:
    hook.receiver.script(answers(500))
    propose(hook.project)
    deliver()
    propose(hook.project)

    assert run_delivery(owner="test/1") == Outcome.RETRY

    waiting = WebhookDelivery.objects.latest("created_at")
    assert (waiting.attempts, waiting.last_error_code) == (0, "not_now")
    assert len(hook.receiver.requests) == 1


def test_receiver_that_is_gone_disables_the_webhook(hook: Hook) -> None:
    hook.receiver.script(answers(410))
    propose(hook.project)

    assert deliver() == Outcome.DEAD

    hook.endpoint.refresh_from_db()
    assert hook.endpoint.disabled_at is not None
    assert hook.endpoint.disabled_reason == "It answered 410 Gone."
    propose(hook.project)
    assert WebhookDelivery.objects.count() == 1


def test_webhook_that_fails_for_days_is_disabled(hook: Hook) -> None:
    WebhookEndpoint.objects.update(failing_since=Now() - DISABLED_AFTER - timedelta(minutes=1))
    hook.receiver.script(answers(500))
    propose(hook.project)

    deliver()

    hook.endpoint.refresh_from_db()
    assert hook.endpoint.disabled_reason == "Every delivery failed for 5 days. The last one: It answered 500."


def test_disabled_webhook_gives_up_what_waits_and_can_be_enabled_again(hook: Hook) -> None:
    propose(hook.project)
    disable_endpoint(hook.endpoint, by=BY)

    assert deliver() == Outcome.DEAD
    assert hook.receiver.requests == []

    enable_endpoint(hook.endpoint, by=BY)
    send_again(only_delivery(), by=BY)
    assert deliver() == Outcome.DONE


def test_message_can_be_sent_again_under_its_id(hook: Hook) -> None:
    propose(hook.project)
    deliver()
    send_again(only_delivery(), by=BY)

    deliver()

    assert len(hook.ids()) == 2
    assert len(set(hook.ids())) == 1


def test_test_message_is_sent_although_the_receiver_rests(hook: Hook) -> None:
    WebhookEndpoint.objects.update(failing_since=Now(), rests_until=Now() + timedelta(hours=1))
    send_test(hook.endpoint, by=BY)

    assert run_delivery(owner="test/1") == Outcome.DONE

    assert hook.verified()["type"] == "webhook.test"


# ── The outbox ────────────────────────────────────────────────────────────────────────────────────────────────────
def test_what_is_rolled_back_sends_nothing(hook: Hook) -> None:
    with pytest.raises(Regret):
        propose_and_regret(hook.project)

    assert not WebhookDelivery.objects.exists()
    assert deliver() == Outcome.NOTHING


def test_events_of_one_transaction_are_one_message(hook: Hook) -> None:
    with transaction.atomic():
        lessons = [propose(hook.project, guideline=f"Check fare rule {number}.") for number in range(3)]

    deliver()

    said = hook.verified()["data"]
    assert [each["id"] for each in said["lessons"]] == [str(lesson.pk) for lesson in lessons]
    assert (said["waiting"], len(hook.ids())) == (3, 1)


def test_lesson_that_is_taken_back_within_a_transaction_is_not_named(hook: Hook) -> None:
    with transaction.atomic():
        kept = propose(hook.project)
        with pytest.raises(Regret):
            propose_and_regret(hook.project)

    assert only_delivery().lesson_ids == [kept.pk]


def test_only_the_projects_own_webhooks_are_told(hook: Hook, receiver: ScriptedProvider) -> None:
    other = make_hook(receiver)
    propose(other.project)

    assert only_delivery().endpoint == other.endpoint


def test_webhook_is_told_only_of_the_events_it_wants(receiver: ScriptedProvider) -> None:
    hook = make_hook(receiver, events=["decision.made"])
    lesson = propose(hook.project)
    approve(lesson)

    assert only_delivery().event_kind == "decision.made"


def approve(lesson: Heuristic) -> None:
    revision = lesson.revisions.get()
    approve_heuristic(lesson, by=BY, content_sha256=revision.content_sha256)


def test_old_deliveries_are_deleted_and_those_that_wait_are_not(hook: Hook) -> None:
    propose(hook.project)
    deliver()
    propose(hook.project)
    Job.objects.update(created_at=timezone.now() - timedelta(days=40))
    Job.objects.filter(status="done").update(finished_at=timezone.now() - timedelta(days=31))

    assert delete_old_deliveries() == 1

    assert only_delivery().status == Status.QUEUED
    assert Job.objects.count() == 1


# ── Addresses ─────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_refused_unless_the_settings_name_it(hook: Hook, settings: Any, host: str) -> None:
    settings.ERL_HTTP_HOSTS = []
    WebhookEndpoint.objects.update(url=f"http://{host}:{hook.receiver.port}/")
    propose(hook.project)

    assert deliver() == Outcome.RETRY

    assert only_delivery().last_error_code == "egress_refused"
    assert hook.receiver.connections == 0


def test_name_that_stands_for_a_private_address_is_refused(hook: Hook, settings: Any, monkeypatch: Any) -> None:
    """A name that the check of the URL cannot know: it is the resolved address that counts."""
    settings.ERL_HTTP_HOSTS = []
    loopback = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", hook.receiver.port))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [loopback])
    WebhookEndpoint.objects.update(url=f"https://hooks.example.com:{hook.receiver.port}/")
    propose(hook.project)

    deliver()

    assert only_delivery().last_error_code == "egress_refused"
    assert hook.receiver.connections == 0


def test_project_of_another_webhook_cannot_be_given_to_a_delivery(hook: Hook) -> None:
    foreign: Project = make_project()
    propose(hook.project)
    WebhookEndpoint.objects.create(
        project=foreign, url="https://x.example", events=[], desk_url="https://x.example", created_by="x"
    )
    theirs = WebhookEndpoint.objects.get(project=foreign)

    WebhookDelivery.objects.update(endpoint=theirs)
    with pytest.raises(IntegrityError, match="endpoint_id_within"):
        connection.check_constraints()
