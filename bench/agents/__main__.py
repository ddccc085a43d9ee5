"""What agents on ERL do and cost.

    uv run python -m bench.agents bfcl [--set base | long_context] [--limit 200] [--only ID] [--windows 8192]
    uv run python -m bench.agents dojo [--suites banking workspace] [--limit 20]
    uv run python -m bench.agents prompts [--runs 1000] [--places 2]
    uv run python -m bench.agents figures [--runs 200]
    uv run python -m bench.agents slow [--runs 100] [--seconds 60]

Each command makes a database, a web server and a worker of its own, and discards them. A server on loopback is the
language model, which follows a plan, and the services that the agents' tools reach.
"""

import argparse
import logging
import os
import time

import tests.servers  # noqa: F401 - names the servers

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django  # isort: skip

django.setup()

from bench.agents import bfcl, dojo, figures, prompts, slow  # noqa: E402
from bench.agents.loopback import Loopback  # noqa: E402
from bench.agents.product import OverHttp, Product, describe_load, started  # noqa: E402
from bench.retrieval_quality import scratch_database  # noqa: E402
from evaluation.environments.bfcl import read_dialogues  # noqa: E402


def run_bfcl(options: argparse.Namespace) -> None:
    windows = options.windows or ([bfcl.WIDE] if options.set == "base" else [bfcl.WIDE, bfcl.NARROW])
    all_dialogues = read_dialogues(options.set)
    dialogues = [all_dialogues[options.only]] if options.only else [*all_dialogues.values()][: options.limit]
    with scratch_database(), Loopback() as loopback, started(loopback) as stack:
        places = []
        for number in range(options.places):
            product = Product.make(OverHttp(stack.base_url), f"place-{number}")
            environment = bfcl.Place(name=f"place-{number}", loopback=loopback, product=product)
            environment.prepare()
            places.append(environment)
        for window in windows:
            began = time.monotonic()
            held = bfcl.hold_all(places, dialogues, window=window)
            print(bfcl.report(held, name=options.set, window=window), f"{time.monotonic() - began:.0f} s", flush=True)
    print(describe_load())


def run_prompts(options: argparse.Namespace) -> None:
    with scratch_database(), Loopback(keep=True) as loopback, started(loopback) as stack:
        places = [
            prompts.Conversations(
                name=f"whimsical-{number}",
                loopback=loopback,
                product=Product.make(OverHttp(stack.base_url), f"place-{number}"),
            )
            for number in range(options.places)
        ]
        began = time.monotonic()
        taken = prompts.hold_all(places, options.runs)
        seconds = time.monotonic() - began
        compared = prompts.compare_all(taken)
    for where in compared.differ[:20]:
        print(f"differs: {where}")
    print(f"{len(taken)} runs, {compared.steps} steps, {len(compared.differ)} prompts differ from what was received")
    print(f"{seconds:.0f} s, {describe_load()}")


def run_figures(options: argparse.Namespace) -> None:
    with scratch_database(), Loopback() as loopback, started(loopback, worker=False) as stack:
        for line in figures.measure(stack, loopback, runs=options.runs):
            print(line)
    print(describe_load())


def run_slow(options: argparse.Namespace) -> None:
    with scratch_database(), Loopback() as loopback, started(loopback) as stack:
        product = Product.make(OverHttp(stack.base_url), "slow")
        measured = slow.run_slow(loopback, product, runs=options.runs, seconds=options.seconds)
    print(slow.report(measured, seconds=options.seconds))
    print(describe_load())


def run_dojo(options: argparse.Namespace) -> None:
    suites = {name: dojo.load_suite(name) for name in options.suites}
    with scratch_database(), Loopback() as loopback, started(loopback) as stack:
        for name, suite in suites.items():
            product = Product.make(OverHttp(stack.base_url), name)
            environment = dojo.Place(name=name, suite=suite, loopback=loopback, product=product)
            for line in dojo.report(name, [*dojo.try_all(environment, limit=options.limit)]):
                print(line, flush=True)
    print(describe_load())


def main() -> None:
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("bfcl")
    command.add_argument("--set", choices=("base", "long_context"), default="base")
    command.add_argument("--limit", type=int, help="Only the first dialogues.")
    command.add_argument("--only", metavar="ID", help="Only this dialogue.")
    command.add_argument("--windows", type=int, nargs="+", help="Tokens of the context windows to try.")
    command.add_argument("--places", type=int, default=2, help="How many dialogues go on at a time.")
    command.set_defaults(run=run_bfcl)
    command = commands.add_parser("prompts")
    command.add_argument("--runs", type=int, default=1000)
    command.add_argument("--places", type=int, default=2, help="How many runs go on at a time.")
    command.set_defaults(run=run_prompts)
    command = commands.add_parser("figures")
    command.add_argument("--runs", type=int, default=200)
    command.set_defaults(run=run_figures)
    command = commands.add_parser("slow")
    command.add_argument("--runs", type=int, default=100)
    command.add_argument("--seconds", type=float, default=60.0)
    command.set_defaults(run=run_slow)
    command = commands.add_parser("dojo")
    command.add_argument("--suites", nargs="+", choices=("banking", "workspace"), default=["banking", "workspace"])
    command.add_argument("--limit", type=int, help="Only so many tasks alone, and so many pairs.")
    command.set_defaults(run=run_dojo)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
