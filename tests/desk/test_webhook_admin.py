"""The pages of webhooks: operators of the project add, rotate, test, disable; everyone else sees nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from standardwebhooks import Webhook

from memory.projects.models import Project
from memory.trust.audit import verify_audit
from memory.trust.models import AuditEntry
from reflection.webhooks.models import WebhookDelivery, WebhookEndpoint
from tests.factories import make_member, make_project
from tests.reflection.webhooks import TAKEN, Hook, deliver, make_hook, propose
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.django_db
LIST = "/admin/reflection/webhookendpoint/"


def make_operator(username: str, project: Project, *, role: str = "operator") -> Any:
    """A person who may manage webhooks, in the projects in which the role is operator."""
    may = [f"{verb}_webhookendpoint" for verb in ("view", "add", "change", "delete")]
    return make_member(username, project=project, role=role, permissions=[*may, "view_webhookdelivery"])


@pytest.fixture
def receiver(settings: Any) -> Iterator[ScriptedProvider]:
    settings.ERL_HTTP_HOSTS = ["127.0.0.1"]
    with ScriptedProvider(otherwise=TAKEN) as receiver:
        yield receiver


@pytest.fixture
def hook(receiver: ScriptedProvider) -> Hook:
    return make_hook(receiver)


@pytest.fixture
def operator(client: Client, hook: Hook) -> Client:
    client.force_login(make_operator("olga", hook.project))
    return client


def page_of(hook: Hook) -> str:
    return f"{LIST}{hook.endpoint.pk}/change/"


def press(client: Client, hook: Hook, **posted: Any) -> Any:
    """Press a button on the page of a webhook."""
    return client.post(f"{LIST}{hook.endpoint.pk}/act/", posted, follow=True)


def form_of(hook: Hook, **changes: Any) -> dict[str, Any]:
    return {
        "project": str(hook.project.pk),
        "url": "https://hooks.example.com/services/T0/B0/x",
        "events": ["decision.made"],
        "style": "slack",
        "desk_url": "https://erl.example.com",
    } | changes


def chain(kind: str) -> list[AuditEntry]:
    """Return the audit entries of a kind, whose triggers wait for the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
    return list(AuditEntry.objects.filter(kind=kind).order_by("id"))


def test_added_webhook_shows_its_secret_once(operator: Client, hook: Hook) -> None:
    answer = operator.post(f"{LIST}add/", form_of(hook))

    secret = answer.context["secret"]
    made = WebhookEndpoint.objects.get(style="slack")
    Webhook(secret)
    assert answer["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    assert (made.created_by, made.events) == ("user:olga", ["decision.made"])
    assert secret not in operator.get(f"{LIST}{made.pk}/change/").content.decode()
    assert secret.removeprefix("whsec_") not in str(list(made.secrets.values()))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "https://10.1.2.3/hook"}, "private network"),
        ({"url": "http://hooks.example.com/"}, "must start with https://"),
        ({"url": "http://localhost:8000/"}, "private network"),
        ({"url": "https://169.254.169.254/latest"}, "metadata service"),
        ({"events": []}, "This field is required"),
        ({"desk_url": "javascript:alert(1)"}, "Enter the address"),
    ],
)
def test_address_that_cannot_be_used_is_refused(
    operator: Client, hook: Hook, changes: dict[str, Any], said: str
) -> None:
    answer = operator.post(f"{LIST}add/", form_of(hook, **changes))

    assert said in answer.content.decode()
    assert WebhookEndpoint.objects.count() == 1


def test_new_webhook_links_to_where_the_form_was_opened(operator: Client) -> None:
    assert 'value="http://testserver"' in operator.get(f"{LIST}add/").content.decode()


def test_change_is_stored_and_audited(operator: Client, hook: Hook) -> None:
    operator.post(page_of(hook), form_of(hook, with_text="on"))

    hook.endpoint.refresh_from_db()
    assert (hook.endpoint.host, hook.endpoint.with_text) == ("hooks.example.com", True)
    (entry,) = chain("webhook_update")
    assert '"host": "hooks.example.com"' in entry.content
    assert '"actor": "user:olga"' in entry.content
    assert "services/T0" not in entry.content
    assert verify_audit().faults == []


def test_secret_is_rotated(operator: Client, hook: Hook) -> None:
    second = press(operator, hook, do="add_secret").context["secret"]
    first = hook.endpoint.secrets.earliest("created_at")
    press(operator, hook, do="retire_secret", secret=first.pk)
    propose(hook.project)
    deliver()

    assert hook.verified(secret=second)["type"] == "proposal.waiting"
    assert len(chain("webhook_secret_insert")) == 2
    assert len(chain("webhook_secret_update")) == 1


def test_only_secret_is_kept(operator: Client, hook: Hook) -> None:
    answer = press(operator, hook, do="retire_secret", secret=hook.endpoint.secrets.get().pk)

    assert "the only secret in use" in answer.content.decode()
    assert hook.endpoint.secrets.get().retired_at is None


def test_test_message_is_sent(operator: Client, hook: Hook) -> None:
    press(operator, hook, do="test")
    deliver()

    assert hook.verified()["type"] == "webhook.test"
    assert "<td>A test</td>" in operator.get(page_of(hook)).content.decode()


def test_delivery_is_sent_again(operator: Client, hook: Hook) -> None:
    propose(hook.project)
    deliver()

    press(operator, hook, do="send_again", delivery=WebhookDelivery.objects.get().pk)
    deliver()

    assert len(set(hook.ids())) == 1
    assert len(hook.ids()) == 2


def test_webhook_is_disabled_and_enabled(operator: Client, hook: Hook) -> None:
    said = press(operator, hook, do="disable").content.decode()
    assert "user:olga disabled it." in said

    press(operator, hook, do="enable")

    hook.endpoint.refresh_from_db()
    assert hook.endpoint.disabled_at is None
    assert len(chain("webhook_update")) == 2


def test_webhook_is_deleted_with_its_messages(operator: Client, hook: Hook) -> None:
    propose(hook.project)

    operator.post(f"{LIST}{hook.endpoint.pk}/delete/", {"post": "yes"})

    assert not WebhookEndpoint.objects.exists()
    assert not WebhookDelivery.objects.exists()
    assert len(chain("webhook_delete")) == 1


def test_failing_webhook_is_seen_on_the_home_page(operator: Client, hook: Hook) -> None:
    WebhookEndpoint.objects.update(failing_since=timezone.now(), disabled_at=timezone.now(), disabled_reason="Gone.")

    figures = {each.label: each.alarming for each in operator.get("/admin/").context["figures"]}

    assert figures["webhook failing"] is True
    assert "Disabled since" in operator.get(page_of(hook)).content.decode()


# ── Others ────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("role", ["reviewer", "auditor"])
def test_other_members_do_not_see_the_address(client: Client, hook: Hook, role: str) -> None:
    client.force_login(make_operator("rita", hook.project, role=role))

    assert hook.endpoint.host not in client.get(LIST).content.decode()
    assert client.get(page_of(hook)).status_code == 302
    assert press(client, hook, do="disable").status_code == 404


def test_operator_of_another_project_sees_and_does_nothing(client: Client, hook: Hook) -> None:
    elsewhere = make_project()
    client.force_login(make_operator("otto", elsewhere))

    assert hook.endpoint.host not in client.get(LIST).content.decode()
    assert press(client, hook, do="disable").status_code == 404
    refused = client.post(f"{LIST}add/", form_of(hook))
    assert "Select a valid choice" in refused.content.decode()


def test_secret_of_another_webhook_cannot_be_retired(operator: Client, hook: Hook, receiver: ScriptedProvider) -> None:
    other = make_hook(receiver)
    secret = other.endpoint.secrets.get()

    assert press(operator, hook, do="retire_secret", secret=secret.pk).status_code == 404


def test_buttons_need_a_post(operator: Client, hook: Hook) -> None:
    assert operator.get(f"{LIST}{hook.endpoint.pk}/act/").status_code == 405
