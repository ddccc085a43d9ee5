"""Print the text an agent would be given for a task."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.limits import MAX_BUDGET_TOKENS, MAX_TOP_K
from memory.management.options import add_project_argument, get_project, number_up_to
from memory.projects.actors import Actor
from memory.retrieval.answers import retrieve
from memory.retrieval.models import Retrieval
from memory.retrieval.question import Question


class Command(BaseCommand):
    help = "Print the block that goes at the top of an agent's system prompt: the record of earlier runs, then lessons."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--task", required=True, help="The task, in the words an agent would be given.")
        add_project_argument(parser)
        parser.add_argument(
            "--family",
            "--task-id",
            dest="task_id",
            default="",
            help="Task family: its rules, mistakes and scores are the record.",
        )
        parser.add_argument("--agent", default="", help="Whose scores to show; those of all agents if left out.")
        parser.add_argument("--mode", choices=Retrieval.Mode.values, help="How to choose lessons. Default: hybrid.")
        parser.add_argument(
            "--top-k", type=number_up_to(MAX_TOP_K), help="Maximum number of lessons. Default: ERL_RETRIEVE_TOP_K."
        )
        parser.add_argument(
            "--budget-tokens", type=number_up_to(MAX_BUDGET_TOKENS), help="Size of the whole block in tokens."
        )
        parser.add_argument("--no-record", action="store_true", help="Leave out the record of earlier runs.")

    def handle(self, *args: Any, **options: Any) -> None:
        answer = retrieve(
            Question(
                project=get_project(options["project"]),
                task=options["task"],
                task_id=options["task_id"],
                agent=options["agent"],
                mode=options["mode"],
                top_k=options["top_k"],
                budget_tokens=options["budget_tokens"],
                record=not options["no_record"],
                by=Actor(label="command:context"),
            )
        )
        if answer.context:
            self.stdout.write(answer.context)
        else:
            self.stderr.write("No lesson fits this task, so nothing would be injected.")
        self.stderr.write(f"{answer.tokens} tokens, sha256 {answer.context_sha256}")
