"""Consolidate a project's memory here and now."""

import json
import sys
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.management.options import add_project_argument, get_project
from memory.projects.actors import Actor
from reflection.consolidation.execution import run_consolidation
from reflection.consolidation.models import ConsolidationRun, Suggestion
from reflection.consolidation.requests import request_consolidation
from reflection.jobs.workers import owner_name

BY = Actor(label="command:consolidate")
POLL_SECONDS = 0.25
FIGURES = (
    "episodes",
    "notes",
    "verdicts",
    "heuristics_proposed",
    "heuristics_supported",
    "suggestions_made",
    "items_before",
    "items_after",
    "tokens_before",
    "tokens_after",
    "input_tokens",
    "output_tokens",
)


class Command(BaseCommand):
    help = (
        "Read what a project's runs noted since the last time and how its lessons were used, and propose new lessons, "
        "merges, narrower and wider wordings, and retirements. Nothing changes until a reviewer accepts it. Needs "
        "neither broker nor worker; if a worker is faster, it waits for that worker. An interrupted consolidation "
        "continues where it stopped. Exit code: 0, or 1 if it did not finish."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_project_argument(parser)
        parser.add_argument("--again", action="store_true", help="read everything again, not only what is new")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        project = get_project(options["project"])
        cause = ConsolidationRun.Cause.COMMAND
        wanted = request_consolidation(project, cause=cause, by=BY, again=options["again"])
        run = self._see_through(wanted)
        if options["json"]:
            figures = {name: getattr(run, name) for name in FIGURES}
            names = ("status", "method", "fallback", "last_error")
            self.stdout.write(json.dumps({name: getattr(run, name) for name in names} | figures))
        else:
            self._tell(run)
        if run.status != ConsolidationRun.Status.DONE:
            sys.exit(1)

    def _see_through(self, wanted: ConsolidationRun) -> ConsolidationRun:
        """Carry it out, or wait for the worker that was faster; take over if that worker dies."""
        said = False
        while True:
            run = run_consolidation(wanted.pk, owner=owner_name())
            run = run or ConsolidationRun.objects.select_related("project").filter(pk=wanted.pk).first()
            if run is None:
                raise CommandError("The consolidation has been deleted. Run the command again for a new one.")
            if run.status not in (ConsolidationRun.Status.QUEUED, ConsolidationRun.Status.RUNNING):
                return run
            if not said:
                self.stderr.write("A worker has taken it. Waiting until it is done; Ctrl-C leaves it to the worker.")
                said = True
            time.sleep(POLL_SECONDS)

    def _tell(self, run: ConsolidationRun) -> None:
        if run.status != ConsolidationRun.Status.DONE:
            self.stderr.write(f"It did not finish ({run.status}): {run.last_error} Run the command again to continue.")
            return
        self.stdout.write(
            f"Read {_count(run.episodes, 'new run')} and compared {_count(run.notes, 'note')}, by {run.method}; "
            f"judged {_count(run.verdicts, 'use')} of lessons."
        )
        if run.fallback:
            self.stdout.write(f"The rules did the work of the language model: {run.fallback}")
        made = dict.fromkeys(Suggestion.Kind.labels, 0)
        for suggestion in run.suggestions.all():
            made[suggestion.get_kind_display()] += 1
        self.stdout.write(
            f"Proposed {_count(run.heuristics_proposed, 'new lesson')}, added runs to {run.heuristics_supported}, made "
            f"{_count(run.suggestions_made, 'suggestion')}"
            + "".join(f"; {name}: {count}" for name, count in made.items() if count and name != "new lesson")
            + "."
        )
        self.stdout.write(
            f"Lessons {run.items_before} → {run.items_after}, their tokens {run.tokens_before} → {run.tokens_after}, "
            f"if all open suggestions are accepted; the model took {run.input_tokens + run.output_tokens} tokens "
            f"(${run.cost_usd:.4f})."
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
