"""Print what a run did, or the very prompt that the model read at one of its steps."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from runtime.context.prompt import hash_prompt, rebuild_request, write_prompt
from runtime.models.runs import Run, Step


class Command(BaseCommand):
    help = (
        "Print the steps and calls of a run; with --at N --prompt, the bytes of the prompt of step N, built again from "
        "the rows. Exit code 1 where their hash is not the one that was stored when the model was asked."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="the run")
        parser.add_argument("--at", type=int, metavar="N", help="one step")
        parser.add_argument("--prompt", action="store_true", help="print the prompt of the step, and nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run = Run.objects.select_related("agent", "revision").get(pk=options["id"])
        except (Run.DoesNotExist, ValidationError):
            raise CommandError(f"There is no run {options['id']}.") from None
        if options["prompt"]:
            self._print_prompt(run, options["at"])
            return
        self.stdout.write(f"Run {run.pk} of {run.agent.name}, revision {run.revision.number}: {run.status}")
        if run.stop_reason:
            self.stdout.write(f"  {run.get_stop_reason_display()}. {run.error}".rstrip())
        for step in run.steps.order_by("seq") if options["at"] is None else [self._get_step(run, options["at"])]:
            self._print_step(step)

    def _print_step(self, step: Step) -> None:
        self.stdout.write(
            f"  {step.seq}. {step.status}, {step.input_tokens} + {step.output_tokens} tokens, "
            f"prompt {step.prompt_sha256[:16]}"
        )
        for effect in step.effects.order_by("id"):
            said = effect.error or effect.result
            self.stdout.write(f"     {effect.tool} {effect.arguments} ({effect.kind}): {effect.status}. {said[:200]}")

    def _get_step(self, run: Run, at: int | None) -> Step:
        step = run.steps.select_related("run__revision", "compaction").filter(seq=at or 0).first()
        if step is None:
            last = run.steps.count()
            todo = f"Name a step from 1 to {last} with --at." if last else "It has asked the model nothing yet."
            raise CommandError(f"The run has no such step. {todo}")
        return step

    def _print_prompt(self, run: Run, at: int | None) -> None:
        step = self._get_step(run, at)
        request = rebuild_request(step)
        sys.stdout.buffer.write(write_prompt(request))
        sys.stdout.flush()
        if hash_prompt(request) != step.prompt_sha256:
            raise CommandError("This is not what the model read: the hash differs from the one that was stored.")
