"""Keep the product's processes and embedded servers running on one machine, and stop them together.

All work happens in `poll()`, which the caller runs a few times a second; there are no threads or signal handlers. The
processes are forks of this one (`erl_site.embedded.forks`).
"""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import structlog

from erl_site.embedded import processes
from erl_site.embedded.forks import fork_program
from erl_site.embedded.home import EmbeddedServerError, log_size, rotate_log
from erl_site.embedded.patience import Patience

log = structlog.get_logger(__name__)

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_MAX_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 60.0  # after this long, back-off starts over
SERVER_CHECK_SECONDS = 2.0
GRACE_SECONDS = 6.0  # of the ten seconds to stop; the rest is for the servers
RECORD = "processes.json"


@dataclass(frozen=True, kw_only=True)
class Service:
    """A module to keep running with its arguments, as `python -m` runs it. Its output goes to `logs/NAME.log`."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Server:
    """An embedded server to keep running and to stop with the services. It is not a child process."""

    name: str
    is_running: Callable[[], bool]
    ensure: Callable[[], object]
    stop: Callable[[], object]


@dataclass(kw_only=True)
class Backoff:
    """The delay before the next start, doubled each time up to a limit."""

    failures: int = 0
    due_at: float = 0.0

    def fail(self) -> float:
        """Record a failure and return the delay in seconds."""
        delay: float = min(BACKOFF_FIRST_SECONDS * 2**self.failures, BACKOFF_MAX_SECONDS)
        self.failures += 1
        self.due_at = time.monotonic() + delay
        return delay


@dataclass(kw_only=True)
class Child:
    """A service and its current process, if any."""

    service: Service
    process: ForkProcess | None = None
    started: float = 0.0
    log_start: int | None = None  # the size of its log when this supervisor started it first
    backoff: Backoff = field(default_factory=Backoff)


class Supervisor:
    """Starts, watches, restarts and stops processes. Calls `report(name, sentence)` for events worth showing."""

    def __init__(
        self,
        *,
        home: Path,
        services: Sequence[Service],
        servers: Sequence[Server] = (),
        report: Callable[[str, str], None] = lambda name, sentence: None,
    ) -> None:
        self.home = home
        self.children = [Child(service=service) for service in services]
        self.servers = {server.name: (server, Backoff()) for server in servers}
        self.report = report
        self.hurry = False  # set it to cut stop() short, for example on a second Ctrl-C
        self._servers_checked = time.monotonic()

    def start(self) -> None:
        """Start every service."""
        for child in self.children:
            self._start(child)

    def poll(self) -> None:
        """Note processes that ended, restart those that are due, and check the servers."""
        now = time.monotonic()
        for child in self.children:
            if child.process is not None and (code := child.process.exitcode) is not None:
                self._note_end(child, code)
            elif child.process is None and now >= child.backoff.due_at:
                self._start(child)
                self.report(child.service.name, "is running again")
        if now - self._servers_checked >= SERVER_CHECK_SECONDS:
            for server, backoff in self.servers.values():
                self._check(server, backoff)
            self._servers_checked = time.monotonic()

    def states(self) -> dict[str, str]:
        """Return `running` or `waiting` by service name."""
        return {child.service.name: "running" if child.process else "waiting" for child in self.children}

    def log_of(self, name: str) -> Path:
        """Return the log file of a service."""
        return self.home / "logs" / f"{name}.log"

    def log_start_of(self, name: str) -> int:
        """Return how large the log of a service was before this supervisor started it."""
        return next((child.log_start or 0 for child in self.children if child.service.name == name), 0)

    def patience_with(self, name: str) -> Patience:
        """Return what sees whether a service does something."""
        child = next(child for child in self.children if child.service.name == name)
        return Patience(lambda: child.process.pid if child.process else None, self.log_of(name))

    def stop(self) -> None:
        """Terminate the processes, kill those left after the grace period, then stop the servers."""
        running = [child.process for child in self.children if child.process]
        for process in running:
            process.terminate()
        end = time.monotonic() + GRACE_SECONDS
        while any(process.exitcode is None for process in running) and time.monotonic() < end and not self.hurry:
            time.sleep(0.05)
        for process in running:
            processes.signal_group(_pid(process), signal.SIGKILL)  # including orphaned grandchildren
            process.join()
        for child in self.children:
            child.process = None
        for server, _ in self.servers.values():
            server.stop()
        (self.home / RECORD).unlink(missing_ok=True)

    def _start(self, child: Child) -> None:
        output = self.log_of(child.service.name)
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        rotate_log(output)
        if child.log_start is None:
            child.log_start = log_size(output)
        child.process = fork_program(child.service.command, output)
        child.started = time.monotonic()
        self._write_record()
        log.info("service_started", service=child.service.name, pid=child.process.pid)

    def _note_end(self, child: Child, code: int) -> None:
        assert child.process is not None
        # What it started is in its group and must not outlive it.
        processes.signal_group(_pid(child.process), signal.SIGKILL)
        child.process = None
        if time.monotonic() - child.started > HEALTHY_AFTER_SECONDS:
            child.backoff = Backoff()
        delay = child.backoff.fail()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        log.warning("service_ended", service=child.service.name, code=code, restart_seconds=delay)
        self.report(child.service.name, f"{how}; restarting in {delay:.0f} s (log: {self.log_of(child.service.name)})")

    def _check(self, server: Server, backoff: Backoff) -> None:
        if server.is_running():
            backoff.failures = 0
            return
        if time.monotonic() < backoff.due_at:
            return
        log.warning("server_down", server=server.name)
        try:
            server.ensure()
        except EmbeddedServerError as error:
            self.report(server.name, f"is down and does not start; next attempt in {backoff.fail():.0f} s. {error}")
        else:
            self.report(server.name, "was down and is running again")

    def _write_record(self) -> None:
        """Record the running processes, so that a later supervisor can stop them if this one is killed."""
        pids = {child.service.name: _pid(child.process) for child in self.children if child.process}
        entries = [{"name": name, "pid": pid, "started_at": processes.started_at(pid)} for name, pid in pids.items()]
        # Replaced as a whole, so that a half-written record is never read.
        draft = self.home / f".{RECORD}"
        draft.write_text(json.dumps(entries))
        draft.replace(self.home / RECORD)


def _pid(process: ForkProcess) -> int:
    assert process.pid is not None  # it was started
    return process.pid


def end_leftovers(home: Path) -> list[str]:
    """Stop services that a killed supervisor left running; return their names.

    The caller must hold the lock against a second supervisor, so that the processes have no owner.

    Raises:
        EmbeddedServerError: the record of these processes is damaged.
    """
    entries = _read_record(home / RECORD)
    left = [entry for entry in entries if _is_left_over(entry)]
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 2.0)):
        for entry in left:
            # A process that is asked to end stops its own children; the group is for those that have lost it.
            if number == signal.SIGTERM and processes.runs(entry["pid"]):
                os.kill(entry["pid"], number)
            else:
                processes.signal_group(entry["pid"], number)
        processes.wait_until_gone([entry["pid"] for entry in left], seconds=seconds)
    (home / RECORD).unlink(missing_ok=True)
    return [entry["name"] for entry in left]


def _read_record(path: Path) -> list[dict[str, Any]]:
    """Return the recorded processes. A damaged record is refused: a wrong id could stop any process."""
    try:
        entries = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        entries = None
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise EmbeddedServerError(
            f"{path} is damaged. It named the processes of the last quickstart: stop those that still run (`ps` shows "
            "them), delete the file and start again."
        )
    return entries


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and {name: type(value) for name, value in entry.items()} == {"name": str, "pid": int, "started_at": str}
        and entry["pid"] > 1
    )


def _is_left_over(entry: dict[str, Any]) -> bool:
    """Return whether the recorded process, or a child in its group, is still alive.

    The system does not reuse a process id while a group with that id exists, so a group without leader is ours.
    """
    now = processes.started_at(entry["pid"])
    return now == entry["started_at"] if now else processes.group_runs(entry["pid"])
