"""The command `erl loop`."""

import argparse
import sys
from pathlib import Path
from typing import Any

from erl_client.agent_loop.loop import Limits, run_loop
from erl_client.agent_loop.record import Plan
from erl_client.client import ERL

BUDGET_SECONDS = 10.0  # an iteration takes minutes


def add_parser(commands: Any) -> None:
    """Add the command to those of `erl`."""
    parser = commands.add_parser(
        "loop",
        help="run an agent's command until a goal is reached",
        usage="erl loop --goal TEXT [--check CMD] [--max-iterations N] [--family F] [--state DIR] -- CMD …",
        description="Each iteration is a process of its own, with ERL_GOAL, ERL_ITERATION, ERL_LESSONS and "
        "ERL_LESSONS_FILE in its environment, and is recorded as a run. To continue a loop that was stopped or "
        "killed, run the same command again.",
    )
    parser.add_argument("--exec", action="store_true", help="run the command after -- as the agent (the default)")
    parser.add_argument("--goal", required=True, help="what the agent should achieve; the task of each run")
    parser.add_argument(
        "--check", default="", metavar="CMD", help="a command that exits with 0 when the goal is reached"
    )
    parser.add_argument(
        "--max-iterations", type=int, default=5, metavar="N", help="the most iterations to run (default: 5)"
    )
    parser.add_argument(
        "--timeout", type=float, default=3_600, metavar="SECONDS", help="time limit of an iteration (default: 3600)"
    )
    parser.add_argument("--family", default="", help="the task family")
    parser.add_argument(
        "--state", type=Path, default=Path(".erl-loop"), metavar="DIR", help="its folder (default: .erl-loop)"
    )
    parser.add_argument("words", nargs="+", metavar="CMD", help="the agent and its arguments, after --")
    parser.set_defaults(command=_loop)


def _loop(options: argparse.Namespace) -> int:
    plan = Plan(goal=options.goal, command=options.words, check=options.check, family=options.family)
    limits = Limits(max_iterations=options.max_iterations, timeout_seconds=options.timeout)
    with ERL(budget_seconds=BUDGET_SECONDS) as erl:
        code = run_loop(erl, plan, limits, folder=options.state, say=_say)
    if waiting := len(erl.spool.waiting()):
        _say(f"{waiting} run{'' if waiting == 1 else 's'} will be recorded when ERL answers again: {erl.spool.folder}")
    return code


def _say(text: str) -> None:
    print(f"erl: {text}", file=sys.stderr, flush=True)
