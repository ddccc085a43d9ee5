"""What a message says: ids, kinds, counts and a link; the text of lessons only where the project wants it.

Text is read when the message is sent and is not kept with it, so an erasure has nothing to find here.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from django.conf import settings
from django.db.models import F
from django.template.defaultfilters import pluralize
from django.urls import reverse

from memory.effects.harm import describe_harm
from memory.events import EventKind
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.redaction.visible_text import show_hidden
from reflection.webhooks.models import TEST_EVENT, WebhookDelivery, WebhookEndpoint

SHOWN_LESSONS = 5  # in a line of text
_TEXTS = ("trigger", "guideline", "avoid", "not_when")
_DECIDED = {
    "approve": "approved",
    "first_approval": "approved by the first of two reviewers",
    "reject": "rejected",
    "retire": "retired",
    "quarantine": "quarantined",
    "merge": "merged into another",
    "keep": "kept in use",
    "undo": "put back: the last decision was undone",
}

_CONCLUDED = {
    "better": "the treated arm is better, or not worse where that was the rule",
    "no_benefit": "no benefit was found",
    "roll_back": "the treated arm was worse, and a guardrail fired",
    "invalid": "nothing can be said, because the arms did not have the planned shares",
}


def write_body(delivery: WebhookDelivery) -> bytes:
    """Return the body of a message as JSON."""
    write = _write_slack if delivery.endpoint.style == WebhookEndpoint.Style.SLACK else _write_standard
    return json.dumps(write(delivery), ensure_ascii=False, separators=(",", ":")).encode()


def _write_standard(delivery: WebhookDelivery) -> dict[str, Any]:
    data: dict[str, Any] = {"project": delivery.project.slug, **delivery.details}
    if delivery.lesson_ids:
        texts = _find_texts(delivery)
        data["lessons"] = [{"id": str(id), **texts.get(id, {})} for id in delivery.lesson_ids]
    if delivery.event_kind == EventKind.PROPOSAL_WAITING:
        data["waiting"] = _count_waiting(delivery)
    # Standard Webhooks' form of a time: UTC, with Z.
    happened_at = delivery.happened_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"type": delivery.event_kind, "timestamp": happened_at, "data": {**data, "link": find_link(delivery)}}


def _write_slack(delivery: WebhookDelivery) -> dict[str, str]:
    headline = f"*{_escape(delivery.project.name)}*: {_say(delivery)} <{find_link(delivery)}|Open in ERL>"
    texts = list(_find_texts(delivery).values())
    quoted = [f"> {_escape(text['trigger'])}: {_escape(text['guideline'])}" for text in texts[:SHOWN_LESSONS]]
    more = [f"> … and {len(texts) - SHOWN_LESSONS} more"] if len(texts) > SHOWN_LESSONS else []
    return {"text": "\n".join([headline, *quoted, *more])}


def _say(delivery: WebhookDelivery) -> str:
    """Return a sentence about the event."""
    details, count = delivery.details, len(delivery.lesson_ids)
    lessons = f"{count} lesson{pluralize(count)}"
    match delivery.event_kind:
        case EventKind.PROPOSAL_WAITING:
            are = "are" if count != 1 else "is"
            return f"{lessons} {are} new in the review queue, where {_count_waiting(delivery)} wait now."
        case EventKind.DECISION_MADE:
            decision = str(details.get("decision", ""))
            were = "were" if count != 1 else "was"
            return f"{lessons} {were} {_DECIDED.get(decision, decision)}."
        case EventKind.APPROVAL_WAITING:
            tool = _escape(str(details.get("tool")))
            if details.get("about_unknown"):
                return f"It is not known whether a call of {tool} by an agent happened. Say how it ended."
            return f"A call of {tool} by an agent is waiting for a decision."
        case EventKind.LESSON_HARMFUL:
            return f"{lessons} may be harmful: runs given it succeed less often, by {describe_harm(details)}."
        case EventKind.RELEASE_CUT:
            return f"Release {details.get('release')} was cut: {details.get('lessons')} lessons."
        case EventKind.DEPLOYMENT_CHANGED:
            return _say_deployed(details)
        case EventKind.EXPERIMENT_ENDED:
            conclusion = _CONCLUDED.get(str(details.get("conclusion")), "it was stopped")
            return f"Experiment {details.get('experiment')} ended: {conclusion}."
        case EventKind.EVALUATION_FINISHED:
            return f"An evaluation ended: {details.get('status')}."
        case EventKind.COMMENT_WRITTEN:
            names = ", ".join(_escape(str(name)) for name in details.get("mentioned", ()))
            mentioning = f" and mentioned {names}" if names else ""
            return f"{_escape(str(details.get('by')))} commented on a {details.get('kind')} in the inbox{mentioning}."
        case EventKind.ITEM_ASSIGNED:
            by, to = _escape(str(details.get("by"))), _escape(str(details.get("assignee")))
            return f"{by} assigned a {details.get('kind')} in the inbox to {to}."
        case _:
            return "This is a test message."


def _say_deployed(details: Mapping[str, Any]) -> str:
    sentences = {
        "settings": "Its settings were changed.",
        "canary": f"Release {details.get('candidate')} is on trial.",
        "promoted": "It was promoted.",
        "rolled_back": "The last deployment was rolled back.",
        "seen": "A person has seen the automatic roll-back.",
    }
    stable = details.get("stable")
    given = f"release {stable}" if stable else "every approval at once"
    return f"Agents are given {given}. {sentences.get(str(details.get('change')), '')}".rstrip()


def find_link(delivery: WebhookDelivery) -> str:
    """Return the address of the page on which a person sees what happened."""
    match delivery.event_kind, delivery.lesson_ids:
        case EventKind.COMMENT_WRITTEN | EventKind.ITEM_ASSIGNED, _:
            of = [delivery.details["kind"], delivery.details["item"]]
            page = reverse("admin:inbox_item", args=of, query={"tab": "discussion"})
        case _, [id]:
            page = reverse("admin:memory_heuristic_change", args=[id])
        case EventKind.APPROVAL_WAITING, _:
            page = reverse("admin:agents_approval_changelist", query={"status__exact": "pending"})
        case EventKind.EVALUATION_FINISHED, _:
            page = reverse("admin:evaluation_evaluationrun_change", args=[delivery.details["evaluation"]])
        case EventKind.PROPOSAL_WAITING, _:
            page = reverse("admin:memory_heuristic_changelist", query={"status__exact": "proposed"})
        case EventKind.RELEASE_CUT | EventKind.DEPLOYMENT_CHANGED, _:
            page = reverse("admin:memory_deployment_of", args=[delivery.project_id])
        case EventKind.EXPERIMENT_ENDED, _:
            page = reverse("admin:evaluation_experiment_changelist")
        case kind, _ if kind == TEST_EVENT:
            page = reverse("admin:reflection_webhookendpoint_change", args=[delivery.endpoint_id])
        case _:
            page = reverse("admin:memory_heuristic_changelist")
    # The page's path begins with ERL_PATH_PREFIX, and so may the address that a person entered.
    return delivery.endpoint.desk_url.rstrip("/").removesuffix(settings.ERL_PATH_PREFIX) + page


def _count_waiting(delivery: WebhookDelivery) -> int:
    return Heuristic.objects.proposed().leading().filter(project_id=delivery.project_id).count()


def _find_texts(delivery: WebhookDelivery) -> dict[Any, dict[str, str]]:
    """Return the newest wording of each lesson that is still there, in order; nothing where no text is wanted."""
    if not delivery.endpoint.with_text:
        return {}
    revisions: Iterable[HeuristicRevision] = HeuristicRevision.objects.filter(
        project_id=delivery.project_id,
        heuristic__in=delivery.lesson_ids,
        heuristic__current_revision=F("pk"),
    )
    texts = {
        revision.heuristic_id: {name: show_hidden(getattr(revision, name)) for name in _TEXTS} for revision in revisions
    }
    # A lesson may have been erased since the event.
    return {id: texts[id] for id in delivery.lesson_ids if id in texts}


def _escape(text: str) -> str:
    """Escape what Slack reads as markup (https://api.slack.com/reference/surfaces/formatting), on one line."""
    return " ".join(show_hidden(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
