"""Which events there are, when they are announced, and what a message about each says."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from evaluation.models import EvaluationRun
from evaluation.runner import end_run
from memory.curation.decisions import edit_and_approve_heuristic, quarantine_heuristic, reject_heuristic
from memory.curation.proposals import revise_heuristic
from memory.effects.harm import measure_lessons
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.projects.models import Project
from reflection.webhooks.bodies import find_link, write_body
from reflection.webhooks.models import WebhookDelivery
from tests.factories import approve_as_read, bearer, make_api_key, make_heuristic, make_project
from tests.memory.effect_rows import make_lesson, record_units
from tests.reflection.webhooks import BY, TAKEN, deliver, make_hook, only_delivery, propose
from tests.runtime.running import Script, go_on, make_agent, make_run
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.django_db
HARM = {"difference": -0.28, "low": -0.38, "high": -0.17}


@pytest.fixture
def receiver(settings: Any) -> Iterator[ScriptedProvider]:
    settings.ERL_HTTP_HOSTS = ["127.0.0.1"]
    with ScriptedProvider(otherwise=TAKEN) as receiver:
        yield receiver


@pytest.fixture
def project() -> Project:
    return make_project(name="Support <1>")


def told() -> list[tuple[str, Any]]:
    """Return what was queued, in order."""
    return [(each.event_kind, each.details) for each in WebhookDelivery.objects.order_by("created_at", "id")]


# ── When ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("role", ["", "erl_tenant"])
def test_proposal_through_the_api_is_told(
    receiver: ScriptedProvider, project: Project, settings: Any, role: str
) -> None:
    settings.ERL_TENANT_ROLE = role
    make_hook(receiver, project=project)
    token = make_api_key(project=project).token
    text = {"trigger": "When a flight is cancelled", "guideline": "Read the fare rules first."}

    answer = APIClient().post("/api/v1/heuristics", text, format="json", headers=bearer(token))

    assert answer.status_code == 201, answer.content
    assert only_delivery().lesson_ids == [Heuristic.objects.get().pk]


def test_new_wording_waits_too(receiver: ScriptedProvider, project: Project) -> None:
    lesson = make_heuristic(project=project, status="approved")
    make_hook(receiver, project=project)

    revise_heuristic(lesson, text=HeuristicText(trigger="Now", guideline="Do something else."), by=BY)

    assert told() == [("proposal.waiting", {})]


def test_call_that_waits_for_a_person_is_told(receiver: ScriptedProvider, project: Project) -> None:
    make_hook(receiver, project=project)
    rules = ({"type": "requires_approval", "tool": "send_message"},)
    run = make_run(make_agent(project=project, tools=["send_message"], rules=rules))

    go_on(run, Script([("send_message", {"message": "Secret words"})]))

    asked = run.approvals.get()
    details = {"approval": str(asked.pk), "run": str(run.pk), "tool": "send_message", "about_unknown": False}
    assert told() == [("approval.waiting", details)]


def test_edit_with_approval_is_one_decision_and_nothing_that_waits(
    receiver: ScriptedProvider, project: Project
) -> None:
    lesson = make_heuristic(project=project)
    make_hook(receiver, project=project)

    edit_and_approve_heuristic(
        lesson,
        text=HeuristicText(trigger="Now", guideline="Do something else."),
        by=BY,
        content_sha256=lesson.revisions.get().content_sha256,
    )

    assert told() == [("decision.made", {"decision": "approve"})]


@pytest.mark.parametrize(
    ("decide", "decision"),
    [(approve_as_read, "approve"), (reject_heuristic, "reject"), (quarantine_heuristic, "quarantine")],
)
def test_decision_is_told(receiver: ScriptedProvider, project: Project, decide: Any, decision: str) -> None:
    lesson = make_heuristic(project=project)
    make_hook(receiver, project=project)

    decide(lesson, by=BY)

    assert told() == [("decision.made", {"decision": decision})]


def test_lesson_is_told_to_be_harmful_once(receiver: ScriptedProvider, project: Project) -> None:
    lesson = make_lesson(project=project)
    make_hook(receiver, project=project)
    record_units(lesson, arm="holdout", success=60, failure=20)
    measure_lessons()
    assert told() == []

    record_units(lesson, success=80, failure=240)
    measure_lessons()
    measure_lessons()

    ((kind, details),) = [event for event in told() if event[0] == "lesson.harmful"]
    assert kind == "lesson.harmful"
    assert details["difference"] == -0.5
    assert details["low"] < details["high"] < 0


@pytest.mark.parametrize("status", ["finished", "failed"])
def test_end_of_an_evaluation_is_told(receiver: ScriptedProvider, project: Project, status: str) -> None:
    hook = make_hook(receiver, project=project)
    run = EvaluationRun.objects.create(project=project, suites=["yours"])

    end_run(run, status)
    deliver()

    assert hook.verified()["data"] == {
        "project": project.slug,
        "evaluation": str(run.pk),
        "status": status,
        "suites": ["yours"],
        "link": f"https://erl.example.com/admin/evaluation/evaluationrun/{run.pk}/change/",
    }


def test_evaluation_of_no_project_is_told_to_nobody(receiver: ScriptedProvider, project: Project) -> None:
    make_hook(receiver, project=project)

    end_run(EvaluationRun.objects.create(suites=["yours"]), "finished")

    assert told() == []


# ── What ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_no_text_is_sent_unless_the_project_wants_it(receiver: ScriptedProvider, project: Project) -> None:
    make_hook(receiver, project=project)
    make_hook(receiver, project=project, style="slack")
    propose(project, guideline="Read the fare rules first.")

    bodies = [write_body(each).decode() for each in WebhookDelivery.objects.all()]

    assert not any("flight" in body or "fare rules" in body for body in bodies)


def test_lesson_text_is_sent_where_the_project_wants_it(receiver: ScriptedProvider, project: Project) -> None:
    hook = make_hook(receiver, project=project, with_text=True)
    lesson = propose(project, guideline="Read the fare rules\u202e first.")
    deliver()

    assert hook.verified()["data"]["lessons"] == [
        {
            "id": str(lesson.pk),
            "trigger": "When a flight is cancelled",
            "guideline": "Read the fare rules⟨U+202E⟩ first.",
            "avoid": "",
            "not_when": "",
        }
    ]


def test_text_of_a_lesson_that_was_erased_is_not_sent(receiver: ScriptedProvider, project: Project) -> None:
    hook = make_hook(receiver, project=project, with_text=True)
    lesson = propose(project)
    id = lesson.pk
    Heuristic.objects.filter(pk=id).update(current_revision=None)
    deliver()

    assert hook.verified()["data"]["lessons"] == [{"id": str(id)}]


def test_slack_gets_one_line_with_a_link(receiver: ScriptedProvider, project: Project) -> None:
    hook = make_hook(receiver, project=project, style="slack")
    lesson = propose(project)
    deliver()

    link = f"https://erl.example.com/admin/memory/heuristic/{lesson.pk}/change/"
    assert hook.receiver.requests[0].body == {
        "text": f"*Support &lt;1&gt;*: 1 lesson is new in the review queue, where 1 wait now. <{link}|Open in ERL>"
    }


def test_call_that_waits_is_linked_to_the_calls_that_wait(receiver: ScriptedProvider, project: Project) -> None:
    endpoint = make_hook(receiver, project=project).endpoint
    delivery = WebhookDelivery(project=project, endpoint=endpoint, payload={"event": "approval.waiting"})

    assert find_link(delivery) == "https://erl.example.com/admin/agents/approval/?status__exact=pending"


def test_slack_text_cannot_mention_or_link(receiver: ScriptedProvider, project: Project) -> None:
    hook = make_hook(receiver, project=project, style="slack", with_text=True)
    propose(project, guideline="<!channel> open <https://evil.example|this>\nnow & then")
    deliver()

    quoted = hook.receiver.requests[0].body["text"].splitlines()[1:]
    assert quoted == [
        "> When a flight is cancelled: &lt;!channel&gt; open &lt;https://evil.example|this&gt; now &amp; then"
    ]


@pytest.mark.parametrize(
    ("kind", "details", "sentence"),
    [
        ("decision.made", {"decision": "quarantine"}, "2 lessons were quarantined."),
        (
            "lesson.harmful",
            HARM,
            "2 lessons may be harmful: runs given it succeed less often, by −28 points (−38 to −17).",
        ),
        ("evaluation.finished", {"status": "failed", "evaluation": str(uuid4())}, "An evaluation ended: failed."),
        ("approval.waiting", {"tool": "refund"}, "A call of refund by an agent is waiting for a decision."),
        (
            "approval.waiting",
            {"tool": "refund", "about_unknown": True},
            "It is not known whether a call of refund by an agent happened. Say how it ended.",
        ),
        ("webhook.test", {}, "This is a test message."),
    ],
)
def test_slack_has_a_sentence_for_each_event(
    receiver: ScriptedProvider, project: Project, kind: str, details: Any, sentence: str
) -> None:
    endpoint = make_hook(receiver, project=project, style="slack").endpoint
    payload = {
        "event": kind,
        "details": details,
        "lesson_ids": [str(uuid4()), str(uuid4())],
        "happened_at": timezone.now().isoformat(),
    }
    delivery = WebhookDelivery(project=project, endpoint=endpoint, payload=payload)

    assert f"*: {sentence}" in write_body(delivery).decode()
