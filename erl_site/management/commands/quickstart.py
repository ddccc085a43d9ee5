"""Run the whole product on one machine."""

import fcntl
import logging
import os
import shutil
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import httpx
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from erl_site.definitions import find_drift
from erl_site.embedded import postgres, processes, valkey
from erl_site.embedded.forks import ForkEnded, call_in_fork
from erl_site.embedded.home import EmbeddedServerError, home_unusable
from erl_site.embedded.patience import Patience
from erl_site.embedded.supervisor import Supervisor, end_leftovers
from erl_site.quickstart.access import FILE, PreparedAccess, prepare_access, read_access, write_access
from erl_site.quickstart.loop import ApiAnswer, Loop, LoopError
from erl_site.quickstart.stack import (
    StackError,
    build_supervisor,
    check_port,
    embedded_servers,
    is_ready,
    load_all,
    site_url,
    wait_until_ready,
)
from erl_site.quickstart.terminal import Terminal

FAILURES = (StackError, LoopError, EmbeddedServerError, DatabaseError, ForkEnded)
QUEUE = "memory/heuristic/?status__exact=proposed"


class Command(BaseCommand):
    help = (
        "Run all of ERL on this machine: PostgreSQL, Valkey, web server, worker and scheduler, with a project, an API "
        "key, an admin user and sample runs. Ctrl-C stops everything; the data is kept for the next run."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="run the sample loop once, print the result and stop")
        parser.add_argument(
            "--port",
            type=int,
            default=settings.ERL_LISTEN.rpartition(":")[2],
            help="port of the web server (%(default)s)",
        )
        parser.add_argument("--reset", action="store_true", help="delete all embedded data first, after asking")
        parser.add_argument("--yes", "--no-input", action="store_true", help="answer yes to all questions")
        parser.add_argument("--no-sample", action="store_true", help="do not record sample runs")
        parser.add_argument("--json", action="store_true", help="print addresses and credentials as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        home: Path = settings.ERL_HOME
        # What others could write, such as the schedule, would be trusted
        os.umask(os.umask(0o022) | 0o022)
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            log_to(home / "logs" / "quickstart.log")
        except OSError as error:
            raise CommandError(str(home_unusable(home, error))) from error
        terminal = Terminal(sys.stderr if options["json"] else sys.stdout)
        _interrupt_on(signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            _interrupt_on(signal.SIGHUP)
        with _lock(home) as is_first:
            if not is_first:
                return self._point_to_running(home, terminal, **options)
            try:
                self._run(home, terminal, **options)
            except FAILURES as error:
                raise CommandError(str(error)) from error
            except KeyboardInterrupt:
                raise CommandError("Interrupted.", returncode=130) from None

    def _run(self, home: Path, terminal: Terminal, **options: Any) -> None:
        # Loading takes seconds as well, so the time begins with the process.
        started = time.monotonic() - processes.age_seconds()
        if not 0 < options["port"] < 65536:
            raise CommandError("Choose a --port between 1 and 65535.")
        terminal.title(f"ERL quickstart in {home}")
        if left := end_leftovers(home):
            terminal.say(f"Stopped {' and '.join(left)}, which a killed quickstart had left running.")
        if options["reset"]:
            reset(home, terminal, confirmed=options["yes"])
        check_port(options["port"])
        supervisor = build_supervisor(options["port"], terminal.event)
        try:
            prepared = self._start(supervisor, terminal, home=home, port=options["port"])
            terminal.say(f"Ready after {time.monotonic() - started:.1f} s.")
            if options["json"]:
                print(prepared.access.as_json(), flush=True)
            worker = supervisor.patience_with("worker")

            def show() -> None:
                answer = None
                if not options["no_sample"]:
                    answer = self._run_loop(prepared, worker, terminal, once=options["once"])
                self._show(prepared, answer, terminal, home=home)

            call_in_fork(show, expected=(*FAILURES, CommandError), poll=supervisor.poll)
            if not options["once"]:
                _supervise(supervisor, terminal)
        finally:
            _stop(supervisor, terminal)

    def _start(self, supervisor: Supervisor, terminal: Terminal, *, home: Path, port: int) -> PreparedAccess:
        for server in reversed(embedded_servers()):
            with terminal.working(server.name) as words:
                server.ensure()
                words.append("running, data in " + _short(home / server.name.lower().replace("postgresql", "postgres")))

        def prepare() -> PreparedAccess:
            with terminal.working("Tables") as words:
                words.append(migrate())
            with terminal.working("Access") as words:
                prepared = prepare_access(site_url=site_url(port), home=home)
                write_access(prepared.access, home)
                key = "new API key" if prepared.is_new_key else "same API key"
                words.append(f"project {prepared.access.project}, {key}, user {prepared.access.admin_user}")
            return prepared

        # Whatever uses the database does so in a fork: this process is what all others are forked from, now and when
        # one of them has died
        prepared = call_in_fork(prepare, expected=(*FAILURES, CommandError), poll=lambda: None)
        with terminal.working("Processes") as words:
            fault = load_all()
            supervisor.start()
            wait_until_ready(supervisor, site_url(port))
            words.append(f"web at {site_url(port)}, worker, scheduler")
        if fault:
            terminal.say(f"{fault} Until this is mended, lessons are found by their words alone.")
        return prepared

    def _run_loop(
        self, prepared: PreparedAccess, worker: Patience, terminal: Terminal, *, once: bool
    ) -> ApiAnswer | None:
        try:
            return Loop(access=prepared.access, terminal=terminal, worker=worker).run()
        except (LoopError, httpx.HTTPError) as error:
            if once:
                raise LoopError(str(error)) from error
            terminal.say(f"\nThe sample loop did not finish: {error}\nERL keeps running.")
            return None

    def _show(self, prepared: PreparedAccess, answer: ApiAnswer | None, terminal: Terminal, *, home: Path) -> None:
        access = prepared.access
        terminal.title("Review queue")
        terminal.say(f"{access.admin_url}{QUEUE}")
        if prepared.is_new_password:
            terminal.say(
                f"user {access.admin_user}, password {access.admin_password}  (shown only now; stored in {home / FILE})"
            )
        elif access.admin_password:
            terminal.say(f"user {access.admin_user}, password in {home / FILE}")
        else:
            terminal.say(f"user {access.admin_user}, with the password you set")
        if answer and answer.agent_page:
            terminal.title("An agent that ERL runs")
            terminal.say(f"It waits for your decision: {access.admin_url}{answer.agent_page}")
            terminal.say(f"Talk to it on its page: {access.admin_url}agents/agent/")
        terminal.title("In your agent")
        terminal.say(f"export ERL_URL={access.base_url.removesuffix('/api/v1')} ERL_API_KEY={access.api_key}")
        if answer:
            terminal.title("Lessons for a new task")
            terminal.say(answer.curl)
            terminal.say(f"\nThe member `context` of the answer ({answer.body['tokens']} tokens):\n")
            terminal.say(answer.body["context"].strip(), indent=4)

    def _point_to_running(self, home: Path, terminal: Terminal, **options: Any) -> None:
        access = read_access(home)
        url = access.get("base_url", "").removesuffix("/api/v1")
        if options["once"] or options["reset"]:
            raise CommandError(
                f"ERL is already running{f' at {url}' if url else ''}. Stop it first with Ctrl-C in its terminal."
            )
        if not url or not is_ready(url):
            raise CommandError(
                f"Another quickstart is starting or stopping in this folder, or {home / FILE} is damaged. Try again in "
                "a moment, or stop it with Ctrl-C in its terminal and start again, which writes that file again."
            )
        terminal.say(f"ERL is already running at {url} (review queue: {url}/admin/{QUEUE}).", indent=0)
        if options["json"]:
            print((home / FILE).read_text().strip(), flush=True)


def migrate() -> str:
    """Migrate the database and return what was done."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    # An upgrade may bring changed functions and no migration.
    if plan or find_drift():
        call_command("migrate", interactive=False, verbosity=0)
    return f"{len(plan)} migrations applied" if plan else "up to date"


def reset(home: Path, terminal: Terminal, *, confirmed: bool) -> None:
    """Delete all data of the embedded servers and earlier runs under `home`, after confirmation."""
    if settings.DATABASE_URL:
        raise CommandError(
            "--reset deletes only embedded data, but DATABASE_URL names another database. Empty that yourself."
        )
    if not confirmed:
        if not sys.stdin.isatty():
            raise CommandError("--reset deletes all data. Without a terminal to ask, add --yes to confirm.")
        terminal.say(f"This deletes all runs, lessons, reviews, keys and users in {home}. Type yes to continue:")
        if sys.stdin.readline().strip().lower() != "yes":
            raise CommandError("Nothing was deleted.")
    postgres.discard(home / "postgres")
    valkey.discard(home / "valkey")
    for leftover in [home / FILE, *home.glob("celerybeat-schedule*")]:
        leftover.unlink(missing_ok=True)
    shutil.rmtree(home / "logs", ignore_errors=True)
    log_to(home / "logs" / "quickstart.log")
    terminal.say("All data deleted.")


def log_to(path: Path) -> None:
    """Send this process's log to a file, to keep the terminal readable."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = logging.getLogger()
    formatter = root.handlers[0].formatter if root.handlers else None
    handler = logging.FileHandler(path)
    handler.setFormatter(formatter)
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)


@contextmanager
def _lock(home: Path) -> Iterator[bool]:
    """Lock this home for one quickstart; yield False if another one holds the lock."""
    with (home / "quickstart.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            # No fork may hold it: the next quickstart ends what this one has left if it is killed
            os.register_at_fork(after_in_child=lock.close)
            yield True


def _supervise(supervisor: Supervisor, terminal: Terminal) -> None:
    """Keep everything running until interrupted."""
    try:
        terminal.say("\nPress Ctrl-C to stop. All data is kept for the next run.")
        while True:
            supervisor.poll()
            time.sleep(0.25)
    except KeyboardInterrupt:
        return


def _stop(supervisor: Supervisor, terminal: Terminal) -> None:
    """Stop everything within ten seconds; another Ctrl-C stops it at once."""

    def hurry(number: int, frame: FrameType | None) -> None:
        supervisor.hurry = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hurry)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    terminal.say()
    with terminal.working("Stopping") as words:
        supervisor.stop()
        words.append("everything stopped")


def _interrupt_on(*numbers: signal.Signals) -> None:
    """Make signals end the command; shells ignore SIGINT for background commands."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
