"""Evolve an agent on the tasks of a suite."""

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from evaluation.errors import EvaluationError
from evaluation.evolution.generations import evolve
from evaluation.evolution.records import Origin, keep_evolution
from evaluation.evolution.report import PLAINLY, write_report
from evaluation.evolution.requests import (
    MOST_GENERATIONS,
    MOST_SEED,
    MOST_TASKS,
    RECORDED,
    SUITES,
    EvolutionPlan,
    evolve_now,
)
from evaluation.runner import prepare_database
from memory.management.options import number_up_to, quiet_logs
from memory.projects.actors import Actor
from runtime.models.agents import Agent

DEMO = "demo"
BY = Actor(label="command:evolve")


class Command(BaseCommand):
    help = (
        "Evolves an agent: proposes tools from its solved tasks, judges them on tasks the proposer never sees, and "
        "measures the best on tasks that nothing was chosen by. `demo` is the scripted agent of the suite: the same "
        "arguments print the same. An agent of a project works with its own model, and what passes is proposed as a "
        "change. All candidates are kept; the admin shows them under Evaluate, Evolutions."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", help="`demo`, or the name of an agent")
        parser.add_argument("--project", default="", metavar="SLUG", help="the agent's project")
        parser.add_argument(
            "--suite",
            choices=[RECORDED, *SUITES],
            default="bfcl",
            help="recorded: tasks of the agent's own recorded runs; bfcl: dialogues with simulated services (default)",
        )
        parser.add_argument("--generations", type=number_up_to(MOST_GENERATIONS, least=1), default=5)
        parser.add_argument("--seed", type=number_up_to(MOST_SEED), default=0)
        parser.add_argument(
            "--most", type=number_up_to(MOST_TASKS), default=0, help="tasks of each family, default all"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            prepare_database()
            with quiet_logs(verbosity=options["verbosity"]):
                for line in self._show_demo(options) if options["agent"] == DEMO else self._evolve(options):
                    self.stdout.write(line)
        except EvaluationError as error:
            raise CommandError(str(error)) from error

    def _show_demo(self, options: dict[str, Any]) -> Iterator[str]:
        if options["suite"] not in SUITES:
            raise CommandError("The demonstration has no recorded runs. Name an agent, or take --suite bfcl.")
        started_at, seed = timezone.now(), options["seed"]
        suite = SUITES[options["suite"]](most=options["most"])
        evolved = evolve(suite, generations=options["generations"], seed=seed)
        yield from write_report(evolved)
        yield PLAINLY
        origin = Origin(
            suite=suite.name,
            seed=seed,
            generations=options["generations"],
            started_at=started_at,
        )
        keep_evolution(evolved, origin, by=BY)

    def _evolve(self, options: dict[str, Any]) -> Iterator[str]:
        candidates = Agent.objects.filter(name=options["agent"], archived_at__isnull=True)
        if options["project"]:
            candidates = candidates.filter(project__slug=options["project"])
        # Two are enough to know that the name is not unique.
        agents = list(candidates.select_related("project", "current")[:2])
        if len(agents) != 1:
            reason = "is in several projects. Name one with --project" if agents else "is in no project. Use its name"
            raise CommandError(f"An agent called {options['agent']} {reason}.")
        plan = EvolutionPlan(
            agent=str(agents[0].pk), **{name: options[name] for name in ("suite", "generations", "seed", "most")}
        )
        ended = evolve_now(agents[0], plan, by=BY)
        yield from write_report(ended.evolved)
        yield f"proposed: change {ended.change.number}" if ended.change is not None else "proposed: nothing"
