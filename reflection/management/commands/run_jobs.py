"""Carry out queued jobs in this process, without broker or worker."""

import json
import signal
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from reflection.jobs.kinds import all_kinds, get_kind
from reflection.jobs.models import Job
from reflection.jobs.periodic import run_periodic_work
from reflection.jobs.workers import owner_name

WATCH_SECONDS = 1.0
_WORDS = {
    "done": "done",
    "retry": "will be tried again later",
    "deferred_budget": "waiting for tomorrow's budget",
    "dead": "given up",
}


class Command(BaseCommand):
    help = (
        "Carry out the jobs that are due, in this process: reflections, runs of agents, webhooks, consolidations, "
        "evaluations. Needs neither broker nor worker, and can run alongside workers: no job runs twice. Ends when "
        "none is due; those that wait for a retry or for budget stay queued. Exit code: 0, or 1 if a job was given up."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = sorted(kind.name for kind in all_kinds())
        parser.add_argument("--kind", choices=kinds, help="Only jobs of this kind.")
        parser.add_argument("--watch", action="store_true", help="Wait for new ones until interrupted with Ctrl-C.")
        parser.add_argument("--limit", type=int, metavar="N", help="End after N attempts.")
        parser.add_argument("--json", action="store_true", help="Print one JSON object with the counts.")

    def handle(self, *args: Any, **options: Any) -> None:
        limit: int | None = options["limit"]
        if limit is not None and limit < 1:
            raise CommandError("--limit must be 1 or more.")
        counts: Counter[str] = Counter()
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            self._drain(counts, kind=options["kind"], limit=limit, watch=options["watch"])
        except KeyboardInterrupt:
            self.stderr.write("Interrupted. A job that was running goes back to the queue.")
        finally:
            signal.signal(signal.SIGTERM, before)
        self._report(counts, as_json=options["json"])
        if counts["dead"]:
            sys.exit(1)

    def _drain(self, counts: Counter[str], *, kind: str | None, limit: int | None, watch: bool) -> None:
        run_periodic_work()
        owner = owner_name()
        # Another process has them, though they seem to be due.
        passed: set[Any] = set()
        with tqdm(desc="Jobs", unit="job", disable=not sys.stderr.isatty()) as progress:
            while limit is None or sum(counts.values()) < limit:
                due = Job.objects.due().filter(**{"kind": kind} if kind else {}).exclude(pk__in=passed)
                job = due.order_by("goes_last", "available_at", "id").first()
                if job is None:
                    if not watch:
                        return
                    passed.clear()
                    time.sleep(WATCH_SECONDS)
                    continue
                get_kind(job.kind).run(job.pk, owner=owner)
                after = Job.objects.filter(pk=job.pk).first()
                if after is not None and (after.status, after.attempts) == (job.status, job.attempts):
                    passed.add(job.pk)
                counts[after.status if after is not None else "done"] += 1
                progress.update()

    def _report(self, counts: Counter[str], *, as_json: bool) -> None:
        left = Job.objects.live().count()
        if as_json:
            self.stdout.write(json.dumps({name: counts[name] for name in _WORDS} | {"left": left}))
            return
        counts_in_words = [
            f"{counts[name]} {words}" for name, words in _WORDS.items() if counts[name] or name == "done"
        ]
        self.stdout.write("; ".join([*counts_in_words, f"{left} left in the queue"]) + ".")
        if counts["dead"]:
            self.stdout.write("The admin shows why some were given up, and queues reflections again.")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
