"""Measure whether memory helps."""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from evaluation.errors import EvaluationError, ProcessEnded
from evaluation.reports.comparison import ReportedCheck, check_baseline, check_limit, compare, read_limit, show
from evaluation.reports.lookup import find_report, read_report
from evaluation.reports.report import write_html, write_json, write_junit, write_text
from evaluation.runner import create_run, execute_run, find_unfinished, prepare_database
from evaluation.suites.base import Options
from evaluation.suites.registry import DEFAULT, foresee_seconds, load_suites, name_staging_suites
from memory.management.options import write_file

COUNTS = ("seeds", "limit", "experience", "k", "budget_tokens", "trials", "concurrency", "max_calls", "agent_timeout")
BELOW_LIMIT = 2  # exit code: the run worked, but a figure is too low
BAR_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}"  # the description has the times


class Command(BaseCommand):
    help = (
        "Measure whether lessons help, offline and without an API key. toolchoice: an agent learns from real requests "
        "through this product and is tested on new ones. replay: published results are recomputed from recorded runs. "
        "retrieval: the search is tested against known answers. reflection: recorded answers of a strong model go "
        "through parsing, checks and the search for duplicates. Everything runs in a separate database; live data is "
        "neither read nor changed. Exit code 2 means that a figure is below --fail-under or the --baseline."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--suite",
            nargs="+",
            metavar="SUITE",
            help=f"any of {', '.join(load_suites())}; default: {' '.join(DEFAULT)}; with --stage toolchoice",
        )
        parser.add_argument(
            "--arms", nargs="+", default=[], metavar="ARM", help="for example none random:5 hybrid:5 all"
        )
        parser.add_argument("--seed", type=int, default=0, help="first seed, default 0")
        parser.add_argument("--seeds", type=int, default=1, metavar="K", help="number of seeds, default 1")
        parser.add_argument("--limit", type=int, metavar="N", help="test on at most N tasks of each suite")
        parser.add_argument("--experience", type=int, metavar="N", help="learn from at most N earlier tasks")
        parser.add_argument("--k", type=int, default=5, help="lessons to retrieve, default 5")
        parser.add_argument("--trials", type=int, default=3, help="tries of each new task, default 3")
        parser.add_argument("--concurrency", type=int, default=4, metavar="N", help="tasks tried at once, default 4")
        parser.add_argument(
            "--max-calls", type=int, metavar="N", help="maximum number of language model calls, in total"
        )
        parser.add_argument(
            "--max-cost", type=float, metavar="USD", help="maximum cost of language model calls, in total"
        )
        parser.add_argument("--project", default="", metavar="SLUG", help="for yours: the project whose runs to use")
        parser.add_argument(
            "--environment", default="", metavar="MODULE:CLASS", help="for yours: your own tasks and agent"
        )
        parser.add_argument(
            "--agent", default="", metavar="COMMAND", help="for yours: your agent, which reads a task as JSON on stdin"
        )
        parser.add_argument("--tasks", type=Path, metavar="FILE", help="for --agent: its tasks, one JSON object a line")
        parser.add_argument(
            "--agent-timeout", type=int, default=300, metavar="SECONDS", help="for one try of --agent, default 300"
        )
        parser.add_argument(
            "--budget-tokens",
            type=int,
            default=4000,
            metavar="N",
            help="maximum tokens of a context block, default 4000",
        )
        parser.add_argument(
            "--data",
            type=Path,
            metavar="PATH",
            help="for retrieval: a folder in BEIR layout, or a folder of them; for replay: a file of your own runs",
        )
        parser.add_argument(
            "--stage",
            action="store_true",
            help="stage a good, a useless and a poisoned release instead of comparing arms, with --suite "
            f"{name_staging_suites()}",
        )
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON; - for standard output")
        parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a single HTML page")
        parser.add_argument("--junit", type=Path, metavar="FILE", help="write checks and limits as JUnit XML, for CI")
        parser.add_argument(
            "--fail-under", action="append", default=[], metavar="METRIC:VALUE", help="for example uplift:0.05"
        )
        parser.add_argument(
            "--baseline", type=Path, metavar="FILE", help="a --json report; exit with 2 if results are worse"
        )
        parser.add_argument(
            "--compare",
            nargs=2,
            metavar=("RUN_A", "RUN_B"),
            help="compare two runs by id or --json file, without running anything",
        )
        parser.add_argument(
            "--resume", action="store_true", help="continue the newest unfinished run with the same options"
        )
        parser.add_argument("--quiet", action="store_true", help="show no progress")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["compare"]:
                self._compare(*options["compare"])
                return
            baseline = read_report(options["baseline"]) if options["baseline"] else None
            # Before the run, which may take hours.
            _check_options(options)
            if prepare_database() and not options["quiet"]:
                self.stderr.write("Created the tables of the new database.")
            results = self._run(options)
            verdicts = [verdict for limit in options["fail_under"] for verdict in check_limit(results, limit)]
            verdicts += check_baseline(results, baseline) if baseline else []
        except ProcessEnded as error:
            raise CommandError(
                f"{error} Its output is above. Run the command again with --resume to continue where it stopped."
            ) from error
        except EvaluationError as error:
            raise CommandError(str(error)) from error
        self._report(results, verdicts, options)
        if not all(verdict.passed for verdict in verdicts):
            sys.exit(BELOW_LIMIT)

    def _run(self, options: dict[str, Any]) -> dict[str, Any]:
        for name in COUNTS:
            if options[name] is not None and options[name] < 1:
                raise CommandError(f"--{name.replace('_', '-')} must be 1 or more.")
        run_options = Options(
            suites=tuple(dict.fromkeys(options["suite"] or (DEFAULT[:1] if options["stage"] else DEFAULT))),
            arms=tuple(options["arms"]),
            data=str(options["data"].resolve()) if options["data"] else "",
            # Absolute, as the sandbox process starts in another folder.
            tasks=str(options["tasks"].resolve()) if options["tasks"] else "",
            folder=str(Path.cwd()) if options["agent"] else "",
            max_cost_usd=options["max_cost"],
            **{name: options[name] for name in ("seed", "stage", "project", "environment", "agent", *COUNTS)},
        )
        # Nothing to resume is no error: the run starts from the beginning.
        run = (find_unfinished(run_options) if options["resume"] else None) or create_run(
            run_options, by="command:evaluate"
        )
        foreseen = foresee_seconds(run_options)
        if not options["quiet"]:
            self.stderr.write(_say_how_long(foreseen))
        with _Bar(quiet=options["quiet"], foreseen=foreseen) as bar:
            results: dict[str, Any] = execute_run(run, watch=bar.show).results
        return results

    def _report(self, results: dict[str, Any], verdicts: list[ReportedCheck], options: dict[str, Any]) -> None:
        to_terminal = options["json"] is not None and str(options["json"]) == "-"
        if to_terminal:
            self.stdout.write(write_json(results), ending="")
        else:
            self.stdout.write(write_text(results))
        written: dict[str, Callable[[dict[str, Any]], str]] = {
            "json": write_json,
            "html": write_html,
            "junit": lambda report: write_junit(report, verdicts),
        }
        for name, write in written.items():
            path = options[name]
            if path is not None and not (name == "json" and to_terminal):
                write_file(path, write(results))
                self.stderr.write(f"Written: {path}")
        for verdict in verdicts:
            self.stderr.write(f"{'Passed' if verdict.passed else 'BELOW'}: {verdict.says}")

    def _compare(self, first: str, second: str) -> None:
        # The second minus the first, as in "after minus before".
        rows = compare(find_report(second), find_report(first))
        if not rows:
            raise EvaluationError("The two runs have no arm in common on the same tasks.")
        width = max(len(f"{row['suite']}/{row['arm']}") for row in rows)
        self.stdout.write(f"{'second minus first':<{width}}  paired, 95%")
        for row in rows:
            self.stdout.write(f"{row['suite'] + '/' + row['arm']:<{width}}  {show(row['difference'])}")


class _Bar:
    """Progress bars on standard error, one for each step, with the time since the start."""

    def __init__(self, *, quiet: bool, foreseen: float | None) -> None:
        self._quiet = quiet
        self._started = time.monotonic()
        self._of = f" of about {_show_time(foreseen)}" if foreseen else ""
        self._what = ""
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def show(self, what: str, done: int, total: int) -> None:
        if self._quiet:
            return
        if what != self._what:
            self._close()
            self._what = what
            since = _show_time(time.monotonic() - self._started)
            self._bar = tqdm(
                total=total, desc=f"{since}{self._of}, {what}", leave=False, file=sys.stderr, bar_format=BAR_FORMAT
            )
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _show_time(seconds: float) -> str:
    return f"{seconds // 60:.0f}:{seconds % 60:02.0f}"


def _say_how_long(foreseen: float | None) -> str:
    if foreseen is None:
        return "How long this takes depends on your agent or model. The bars show how far it is; --resume continues."
    minutes = max(1, round(foreseen / 60))
    return (
        f"This takes about {minutes} minute{'s' if minutes > 1 else ''} on two idle processors, longer where they are "
        "busy."
    )


def _check_options(options: dict[str, Any]) -> None:
    """Find mistakes now that would otherwise show only after the run."""
    for name in ("environment", "agent", "tasks"):
        if options[name] and "yours" not in (options["suite"] or DEFAULT):
            raise EvaluationError(f"--{name} is for your own agent: add --suite yours.")
    for limit in options["fail_under"]:
        read_limit(limit)
    for name in ("json", "html", "junit"):
        path = options[name]
        if path is not None and str(path) != "-" and not path.resolve().parent.is_dir():
            raise EvaluationError(f"--{name} {path}: there is no folder {path.resolve().parent}. Create it first.")
