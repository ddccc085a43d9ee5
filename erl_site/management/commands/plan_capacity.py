"""Say what a number of requests a second takes."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from erl_site.capacity.plan import Demand, make_plan, read_figures


class Command(BaseCommand):
    help = "Say how many hosts, cores, connections and how much memory and disk a number of requests a second takes."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rps", type=float, required=True, help="Requests a second.")
        parser.add_argument("--new-share", type=float, default=0.3, help="Of the tasks asked, those that are new.")
        parser.add_argument("--lessons", type=int, default=1_000_000, help="Served lessons of the largest project.")
        parser.add_argument("--run-share", type=float, default=0.1, help="Of all requests, those that record a run.")
        parser.add_argument("--cores-per-host", type=int, default=8)

    def handle(self, *args: Any, **options: Any) -> None:
        shares = options["new_share"], options["run_share"]
        if min(options["rps"], options["lessons"], options["cores_per_host"]) <= 0 or not all(
            0 <= share <= 1 for share in shares
        ):
            raise CommandError("Rates and sizes have to be above 0, and shares between 0 and 1.")
        demand = Demand(
            requests_per_second=options["rps"],
            new_share=options["new_share"],
            lessons=options["lessons"],
            run_share=options["run_share"],
            cores_per_host=options["cores_per_host"],
        )
        plan = make_plan(demand, read_figures())
        self.stdout.write(f"{'':22}{'busy cores':>11}{'hosts':>7}{'cores':>7}{'GB':>7}{'connections':>13}")
        for part in plan.parts:
            self.stdout.write(
                f"{part.name:22}{part.busy_cores:11.1f}{part.hosts:7}{part.cores:7}{part.memory_gb:7.0f}"
                f"{part.connections:13}"
            )
        self.stdout.write(f"\nDisk: {plan.disk_gb_a_month:,.0f} GB a month, before retention.")
        self.stdout.write("Processors go to:")
        for name, share in plan.drivers:
            self.stdout.write(f"  {share:4.0%}  {name}")
