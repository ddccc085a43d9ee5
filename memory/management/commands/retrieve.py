"""Show which lessons a task would be given."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.errors import NoSuchRelease
from memory.heuristics.models import HeuristicRevision
from memory.limits import MAX_BUDGET_TOKENS, MAX_TOP_K
from memory.management.options import add_project_argument, get_project, number_up_to
from memory.projects.actors import Actor
from memory.redaction.visible_text import is_visible
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.assignment import find_pinned
from memory.retrieval.models import Retrieval
from memory.retrieval.question import Filters, Question


class Command(BaseCommand):
    help = "Show the lessons that a task would be given, why, and the block that would be injected."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task", help="The task, in the words an agent would be given.")
        add_project_argument(parser)
        parser.add_argument("--task-id", default="", help="Task family; among equal lessons, its own come first.")
        parser.add_argument("--mode", choices=Retrieval.Mode.values, help="How to choose. Default: ERL_RETRIEVE_MODE.")
        parser.add_argument(
            "--top-k",
            type=number_up_to(MAX_TOP_K),
            help="Maximum number of lessons to show. Default: ERL_RETRIEVE_TOP_K.",
        )
        parser.add_argument(
            "--budget-tokens", type=number_up_to(MAX_BUDGET_TOKENS), help="Size of the block in tokens."
        )
        parser.add_argument("--seed", help="The seed of the mode random.")
        parser.add_argument("--tag", action="append", default=[], help="Only lessons with this tag; repeatable.")
        parser.add_argument("--family", action="append", default=[], help="Only of this task family; repeatable.")
        parser.add_argument(
            "--source-agent", action="append", default=[], help="Only lessons learnt from runs of this agent."
        )
        parser.add_argument(
            "--polarity",
            action="append",
            default=[],
            choices=HeuristicRevision.Polarity.values,
            help="Only lessons of this kind; repeatable.",
        )
        parser.add_argument(
            "--status", choices=["approved"], help="Nothing else is ever served, so it may be left out."
        )
        parser.add_argument(
            "--release", default="", help="Answer from this release (number or hash). Default: what is deployed."
        )
        parser.add_argument("--json", action="store_true", help="Print the answer as one JSON object.")

    def handle(self, *args: Any, **options: Any) -> None:
        _check_task(options["task"])
        project = get_project(options["project"])
        try:
            pinned = find_pinned(project.pk, options["release"]) if options["release"] else None
        except NoSuchRelease as refusal:
            raise CommandError(str(refusal)) from refusal
        answer = retrieve(
            Question(
                project=project,
                release_id=pinned,
                task=options["task"],
                task_id=options["task_id"],
                mode=options["mode"],
                top_k=options["top_k"],
                budget_tokens=options["budget_tokens"],
                filters=Filters(
                    task_ids=tuple(options["family"]),
                    tags=tuple(options["tag"]),
                    agents=tuple(options["source_agent"]),
                    polarities=tuple(options["polarity"]),
                ),
                seed=options["seed"],
                by=Actor(label="command:retrieve"),
            )
        )
        if options["json"]:
            self.stdout.write(json.dumps(asdict(answer), default=str, ensure_ascii=False, indent=2))
        else:
            self._print(answer)

    def _print(self, answer: RetrievalAnswer) -> None:
        if answer.mode == Retrieval.Mode.NONE:
            self.stdout.write("No search: the mode none returns no lessons.")
        elif not answer.items:
            self.stdout.write("No lesson fits this task, so nothing would be injected.")
        for number, item in enumerate(answer.items, start=1):
            scores = ", ".join(f"{name} {value:.3f}" for name, value in item["scores"].items())
            left_out = "" if item["injected"] else "(not in the block) "
            self.stdout.write(f"{number:>3}. {left_out}when {item['trigger'].removeprefix('When ')}")
            self.stdout.write(f"     do {item['guideline']}")
            if item["subtask"]:
                self.stdout.write(f"     for: {item['subtask']}")
            why = f"{item['reason']} ({scores})" if scores else item["reason"]
            self.stdout.write(f"     {why}  id {item['id']}, revision {item['revision']}")
        injected = sum(item["injected"] for item in answer.items)
        if answer.release is not None:
            self.stdout.write(f"\nFrom release {answer.release}, arm {answer.arm}.")
        if answer.degraded:
            self.stdout.write(f"\nNot available: {answer.degraded}. The answer was made without it.")
        self.stdout.write(
            f"\n{len(answer.items)} of {answer.candidate_count} candidates, {injected} in the block of {answer.tokens} "
            f"tokens, mode {answer.mode}, in {answer.duration_ms:.1f} ms, retrieval {answer.retrieval_id}."
        )
        if answer.context:
            self.stdout.write(f"\nThe block an agent would be given:\n\n{answer.context}")


def _check_task(task: str) -> None:
    if not is_visible(task):
        raise CommandError("Say what is to be done.")
    try:
        task.encode()
    except UnicodeEncodeError:
        raise CommandError("The task is not UTF-8. Give it in the encoding of your terminal.") from None
