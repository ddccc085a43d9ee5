"""Run queued reflections in this process, without broker or worker."""

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

from reflection.jobs.execution import Outcome
from reflection.jobs.periodic import run_periodic_work
from reflection.jobs.workers import owner_name
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import Attempt, run_reflection

WATCH_SECONDS = 1.0
FIGURES = ("done", "retry", "deferred_budget", "dead", "lost")


class Command(BaseCommand):
    help = (
        "Run the reflections that are due, oldest first, in this process. Needs neither broker nor worker, and can "
        "run alongside workers: no reflection runs twice. Ends when none is due; those that wait for a retry or for "
        "budget stay queued. Exit code: 0, or 1 if a reflection was given up (status dead)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        until = parser.add_mutually_exclusive_group()
        until.add_argument("--until-empty", action="store_true", help="End when none is due (the default).")
        until.add_argument("--watch", action="store_true", help="Wait for new ones until interrupted with Ctrl-C.")
        parser.add_argument("--limit", type=int, metavar="N", help="End after N reflections.")
        parser.add_argument("--json", action="store_true", help="Print one JSON object with the counts.")

    def handle(self, *args: Any, **options: Any) -> None:
        limit: int | None = options["limit"]
        if limit is not None and limit < 1:
            raise CommandError("--limit must be 1 or more.")
        counts: Counter[str] = Counter()
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            self._drain(counts, limit=limit, watch=options["watch"])
        except KeyboardInterrupt:
            self.stderr.write("Interrupted. The reflection that was running goes back to the queue.")
        finally:
            signal.signal(signal.SIGTERM, before)
        self._report(counts, as_json=options["json"])
        if counts[Outcome.DEAD]:
            sys.exit(1)

    def _drain(self, counts: Counter[str], *, limit: int | None, watch: bool) -> None:
        run_periodic_work()
        owner = owner_name()
        due = Reflection.objects.due().count()
        total = None if watch else min(due, limit or due)
        ran = 0
        with tqdm(total=total, desc="Reflecting", unit="run", disable=not sys.stderr.isatty()) as progress:
            while limit is None or ran < limit:
                attempt = run_reflection(owner=owner)
                if attempt.outcome == Outcome.NOTHING:
                    if not watch:
                        return
                    time.sleep(WATCH_SECONDS)
                    continue
                ran += 1
                _count(counts, attempt)
                progress.update()

    def _report(self, counts: Counter[str], *, as_json: bool) -> None:
        figures = {name: counts[name] for name in (*FIGURES, "proposed", "supported")}
        figures["left"] = Reflection.objects.live().count()
        if as_json:
            self.stdout.write(json.dumps(figures))
            return
        ran = sum(counts[name] for name in FIGURES)
        said = [
            f"{ran} reflected: {figures['proposed']} heuristics proposed, {figures['supported']} supported",
            *(f"{figures[name]} {word}" for name, word in _WORDS.items() if figures[name]),
            f"{figures['left']} left in the queue",
        ]
        self.stdout.write("; ".join(said) + ".")
        if figures["dead"]:
            self.stdout.write("Reflections in the admin shows why some were given up, and queues them again.")


_WORDS = {
    "retry": "will be tried again later",
    "deferred_budget": "waiting for tomorrow's budget",
    "dead": "given up",
    "lost": "taken over by another worker",
}


def _count(counts: Counter[str], attempt: Attempt) -> None:
    counts[attempt.outcome.value] += 1
    counts["proposed"] += attempt.proposed
    counts["supported"] += attempt.supported


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
