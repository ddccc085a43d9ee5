"""Evolve an agent on the tasks of a suite, with the controls that say whether to believe it."""

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.errors import EvaluationError
from evaluation.evolution.bfcl import BfclSuite
from evaluation.evolution.controls import help_and_harm, poison, promote_itself, shuffle
from evaluation.evolution.generations import evolve
from evaluation.evolution.report import PLAINLY, write_controls, write_lopsided, write_report
from evaluation.evolution.suite import EvolutionSuite
from memory.management.options import quiet_logs

SUITES = {"bfcl": BfclSuite}


class Command(BaseCommand):
    help = (
        "Evolves an agent: proposes tools from its solved runs, judges them on tasks that the proposer never sees, and "
        "measures the best on tasks that nothing was chosen by. The same arguments print the same."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", help="`demo` is the scripted agent of the suite")
        parser.add_argument("--suite", choices=sorted(SUITES), default="bfcl")
        parser.add_argument("--generations", type=int, default=5)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--aa", type=int, default=100, help="how often the agent is judged against itself")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["agent"] != "demo":
            raise CommandError(
                "Only the agent `demo` of a suite can be evolved here. Changes of other agents come from their runs: "
                "set sleep_after_runs (docs/evolution.md)."
            )
        try:
            suite = SUITES[options["suite"]]()
        except EvaluationError as error:
            raise CommandError(str(error)) from error
        with quiet_logs(verbosity=options["verbosity"]):
            for line in self._evolve(suite, options):
                self.stdout.write(line)

    def _evolve(self, suite: EvolutionSuite, options: dict[str, Any]) -> Iterator[str]:
        seed = options["seed"]
        evolved = evolve(suite, generations=options["generations"], seed=seed)
        yield from write_report(evolved)
        promoted = promote_itself(suite, evolved, times=options["aa"], seed=seed)
        yield from write_controls(shuffle(suite, evolved, seed=seed), promoted, options["aa"], poison(evolved))
        yield from write_lopsided(help_and_harm(suite, evolved, seed=seed))
        yield PLAINLY
