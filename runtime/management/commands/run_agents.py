"""Go on with runs, and with changes and sleep of agents, that wait for a worker, without a broker."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from reflection.jobs.execution import Outcome
from reflection.jobs.workers import owner_name
from runtime.changes.jobs import run_shadow
from runtime.changes.sleep import run_sleep
from runtime.loop.execution import run_agent


class Command(BaseCommand):
    help = "Goes on with runs that wait for a worker, and with changes and sleep of agents, until none is due."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--limit", type=int, default=100, help="Most runs to go on with.")

    def handle(self, *args: Any, **options: Any) -> None:
        for _ in range(options["limit"]):
            if run_agent(owner=owner_name()).outcome == Outcome.NOTHING:
                break
        for work in (run_shadow, run_sleep):
            for _ in range(options["limit"]):
                if work(owner=owner_name()) == Outcome.NOTHING:
                    break
