"""The emergency brake: stop serving everything learnt from one source, and release it again."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.template.defaultfilters import pluralize

from memory.heuristics.models import Heuristic
from memory.management.options import add_project_argument, get_project, read_time
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.projects.api_keys import revoke_api_key
from memory.projects.models import ApiKey, Project
from memory.runs.models import Trajectory
from memory.trust.carried import find_carried
from memory.trust.models import QuarantineOrder
from memory.trust.quarantine import (
    Quarantined,
    QuarantinedSource,
    find_covered_by,
    find_reach,
    lift_order,
    quarantine_source,
)

BY = Actor(label="command:quarantine")


class Command(BaseCommand):
    help = (
        "Stop serving everything learnt from an API key or a client since a point in time, and list the answers that "
        "carried it. Nothing that an order covers is served again until it is lifted, and then only after a review."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--list", metavar="ORDER", help="list again the answers that carried what an order covers")
        source.add_argument("--lift", metavar="ORDER", help="end an order: a review may then serve the words again")
        source.add_argument("--key", metavar="PREFIX", help="the eight characters after erl_live_ of the key")
        source.add_argument("--client", metavar="NAME", help="the client, with all of its keys (needs the project)")
        add_project_argument(parser)
        parser.add_argument("--since", metavar="TIME", help="ISO time (2026-05-01T12:00Z) or an age: 90m, 24h, 7d")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why; kept in every review")
        parser.add_argument("--lesson", metavar="ID", help="with --lift: only for this lesson or mistake card")
        parser.add_argument("--revoke", action="store_true", help="with --key: also revoke the key")
        parser.add_argument("--dry-run", action="store_true", help="only show what would be quarantined")
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"]:
            self._list(options["list"], as_json=options["json"])
            return
        if options["lift"]:
            self._lift(options["lift"], lesson=options["lesson"], reason=options["reason"])
            return
        if not options["since"]:
            raise CommandError("Give --since a time such as 2026-05-01T12:00Z, or an age such as 90m, 24h or 7d.")
        since = read_time(options["since"])
        api_key = _find_key(options["key"]) if options["key"] else None
        project = api_key.project if api_key else get_project(options["project"])
        if options["revoke"] and api_key is None:
            raise CommandError("Name the key with --key: --revoke needs it.")
        if not api_key:
            _check_client(project, options["client"])
        if options["dry_run"]:
            client = api_key.client if api_key else options["client"]
            reach = find_reach(project, QuarantinedSource(client=client, api_key=api_key, since=since))
            lessons, answers = len(reach.heuristic_ids), len(find_carried(project, reach.covered))
            self.stdout.write(
                f"Would look at {lessons:,} lesson{pluralize(lessons)}, which {answers:,} answer{pluralize(answers)} "
                "carried."
            )
            return
        source: dict[str, Any] = {"api_key": api_key} if api_key else {"client": options["client"]}
        # Together: a key that is revoked while its lessons stay served would look like success.
        with transaction.atomic():
            if options["revoke"] and api_key:
                revoke_api_key(api_key, by=BY)
            done = quarantine_source(project, **source, since=since, by=BY, reason=options["reason"])
        self.stdout.write(json.dumps(_as_json(done)) if options["json"] else _as_text(done))

    def _list(self, id: str, *, as_json: bool) -> None:
        order = _find_order(id)
        # Asked again: answers that were in progress when the order was placed are there now.
        carried = find_carried(Project.objects.get(pk=order.project_id), find_covered_by(order))
        done = Quarantined(order=order, heuristic_ids=tuple(order.heuristic_ids), carried=carried)
        self.stdout.write(json.dumps(_as_json(done)) if as_json else _as_text(done))

    def _lift(self, id: str, *, lesson: str | None, reason: str) -> None:
        order = _find_order(id)
        subject = _find_subject(order, lesson) if lesson else None
        lift_order(order, by=BY, subject=subject, reason=reason)
        what = f"for {lesson}" if lesson else "for all it covers"
        self.stdout.write(f"The order {order.pk} is lifted {what}. This serves nothing by itself: review it next.")


def _find_order(id: str) -> QuarantineOrder:
    try:
        return QuarantineOrder.objects.get(pk=id)
    except (QuarantineOrder.DoesNotExist, ValidationError):
        raise CommandError(f"There is no order {id}. The admin lists them under quarantine orders.") from None


def _find_subject(order: QuarantineOrder, id: str) -> Heuristic:
    try:
        lesson = Heuristic.objects.filter(pk=id, project=order.project_id).first()
        card = MistakeCard.objects.filter(pk=id, project=order.project_id).first()
    except ValidationError:
        lesson = card = None
    subject = lesson or card
    if subject is None:
        raise CommandError(f"There is no lesson or mistake card {id} in the project of the order.")
    return subject


def _find_key(prefix: str) -> ApiKey:
    api_key = ApiKey.objects.select_related("project").filter(prefix=prefix).first()
    if api_key is None:
        raise CommandError(f"No key starts with erl_live_{prefix}. Check the prefix in the admin.")
    return api_key


def _check_client(project: Project, client: str) -> None:
    """Refuse a client that sent nothing: a typing error must not look like success."""
    if any(model.objects.filter(project=project, client=client).exists() for model in (ApiKey, Trajectory, Heuristic)):
        return
    clients = ", ".join(
        ApiKey.objects.filter(project=project).order_by("client").values_list("client", flat=True).distinct()
    )
    raise CommandError(
        f"Nothing came from a client {client!r} in {project.slug}. Clients with keys: {clients or 'none'}."
    )


def _as_json(done: Quarantined) -> dict[str, Any]:
    return {
        "order": str(done.order.pk),
        "source": done.order.source,
        "since": done.order.since.isoformat(),
        "heuristics": [str(id) for id in done.heuristic_ids],
        "mistake_cards": [str(id) for id in done.card_ids],
        "answers": [
            {
                "retrieval_id": str(answer.retrieval_id),
                "answered_at": answer.answered_at.isoformat(),
                "request_id": answer.request_id,
                "client": answer.client,
                "agent": answer.agent,
                "heuristics": [str(id) for id in answer.heuristic_ids],
                "mistake_cards": [str(id) for id in answer.card_ids],
            }
            for answer in done.carried
        ],
    }


def _as_text(done: Quarantined) -> str:
    count = len(done.heuristic_ids)
    lines = [f"Quarantined {count:,} lesson{pluralize(count)} of {done.order.source}; they are no longer served."]
    lines += [f"  lesson {id}" for id in done.heuristic_ids]
    lines += [f"  mistake card {id}" for id in done.card_ids]
    lines.append(f"{len(done.carried):,} answer{pluralize(len(done.carried))} carried any of them:")
    lines += [
        f"  {answer.answered_at:%Y-%m-%d %H:%M:%S}  retrieval {answer.retrieval_id}  request {answer.request_id}  "
        f"client {answer.client}"
        for answer in done.carried
    ]
    lines.append(
        f"Answers that were in progress are not in this list yet: manage.py quarantine --list {done.order.pk}\n"
        f"Nothing it covers is served until it is lifted: manage.py quarantine --lift {done.order.pk} [--lesson ID]"
    )
    return "\n".join(lines)
