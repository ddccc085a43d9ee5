"""Keeps the product's processes and embedded servers running on one machine, and ends them together.

Everything happens in `poll()`, which the caller calls a few times a second: no threads, no signals of its own.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from erl_site.embedded import processes
from erl_site.embedded.home import EmbeddedServerError

log = structlog.get_logger(__name__)

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_MOST_SECONDS = 30.0
HEALTHY_AFTER_SECONDS = 60.0  # who ran this long starts again at the first delay
SERVER_CHECK_SECONDS = 2.0
GRACE_SECONDS = 6.0  # of the ten that stopping may take; the rest is for the servers
LOG_BYTES_BEFORE_TURNOVER = 10_000_000
RECORD = "processes.json"


@dataclass(frozen=True, kw_only=True)
class Service:
    """A process to keep running. Its output goes to `logs/NAME.log`."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Server:
    """An embedded server, which is no child process, to keep running and to stop with the rest."""

    name: str
    is_running: Callable[[], bool]
    ensure: Callable[[], object]
    stop: Callable[[], object]


@dataclass(kw_only=True)
class Backoff:
    """How long to wait before the next start: twice as long each time, up to a limit."""

    failures: int = 0
    due_at: float = 0.0

    def fail(self) -> float:
        """Note a failure and return the delay in seconds."""
        delay: float = min(BACKOFF_FIRST_SECONDS * 2**self.failures, BACKOFF_MOST_SECONDS)
        self.failures += 1
        self.due_at = time.monotonic() + delay
        return delay


@dataclass(kw_only=True)
class Child:
    """A service's process, present or to come."""

    service: Service
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)


class Supervisor:
    """Starts, watches, restarts and stops. `report(name, sentence)` hears of everything a person should know."""

    def __init__(
        self,
        *,
        home: Path,
        services: Sequence[Service],
        servers: Sequence[Server] = (),
        environment: dict[str, str] | None = None,
        working_directory: Path | None = None,
        report: Callable[[str, str], None] = lambda name, sentence: None,
    ) -> None:
        self.home = home
        self.children = [Child(service=service) for service in services]
        self.servers = {server.name: (server, Backoff()) for server in servers}
        self.environment = os.environ | {"PYTHONUNBUFFERED": "1"} | (environment or {})
        self.working_directory = working_directory
        self.report = report
        self.hurry = False  # set it to end the grace of stop(), for instance at a second Ctrl-C
        self._servers_checked = time.monotonic()

    def start(self) -> None:
        """Start every service."""
        for child in self.children:
            self._start(child)

    def poll(self) -> None:
        """Look after everything once: note who ended, start again who is due, see that the servers answer."""
        now = time.monotonic()
        for child in self.children:
            if child.process is not None and (code := child.process.poll()) is not None:
                self._note_end(child, code)
            elif child.process is None and now >= child.backoff.due_at:
                self._start(child)
                self.report(child.service.name, "runs again")
        if now - self._servers_checked >= SERVER_CHECK_SECONDS:
            for server, backoff in self.servers.values():
                self._check(server, backoff)
            self._servers_checked = time.monotonic()

    def states(self) -> dict[str, str]:
        """Return `running` or `waiting` for every service by name."""
        return {child.service.name: "running" if child.process else "waiting" for child in self.children}

    def log_of(self, name: str) -> Path:
        """Return the file with the output of a service."""
        return self.home / "logs" / f"{name}.log"

    def stop(self) -> None:
        """End everything: ask first, kill what has not ended after the grace period, then stop the servers."""
        living = [child.process for child in self.children if child.process]
        for process in living:
            process.terminate()
        end = time.monotonic() + GRACE_SECONDS
        while any(process.poll() is None for process in living) and time.monotonic() < end and not self.hurry:
            time.sleep(0.05)
        for process in living:
            processes.signal_group(process.pid, signal.SIGKILL)  # also what a child left behind
            process.wait()
        for child in self.children:
            child.process = None
        for server, _ in self.servers.values():
            server.stop()
        (self.home / RECORD).unlink(missing_ok=True)

    def _start(self, child: Child) -> None:
        output = self.log_of(child.service.name)
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if output.exists() and output.stat().st_size > LOG_BYTES_BEFORE_TURNOVER:
            output.replace(output.with_suffix(".log.1"))
        with output.open("ab") as stream:
            child.process = subprocess.Popen(
                child.service.command,
                cwd=self.working_directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # Ctrl-C reaches us alone, and the group can be killed as one
            )
        child.started = time.monotonic()
        self._write_record()
        log.info("service_started", service=child.service.name, pid=child.process.pid)

    def _note_end(self, child: Child, code: int) -> None:
        assert child.process is not None
        processes.signal_group(child.process.pid, signal.SIGKILL)
        child.process = None
        if time.monotonic() - child.started > HEALTHY_AFTER_SECONDS:
            child.backoff = Backoff()
        delay = child.backoff.fail()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        log.warning("service_ended", service=child.service.name, code=code, restart_seconds=delay)
        self.report(
            child.service.name, f"{how}; it starts again in {delay:.0f} s (log: {self.log_of(child.service.name)})"
        )

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
            self.report(server.name, f"is down and does not start; next try in {backoff.fail():.0f} s. {error}")
        else:
            self.report(server.name, "was down and runs again")

    def _write_record(self) -> None:
        """Leave behind who runs, so that a later supervisor can end them should this one be killed."""
        pids = {child.service.name: child.process.pid for child in self.children if child.process}
        entries = [{"name": name, "pid": pid, "started_at": processes.started_at(pid)} for name, pid in pids.items()]
        draft = self.home / f".{RECORD}"
        draft.write_text(json.dumps(entries))
        draft.replace(self.home / RECORD)


def end_leftovers(home: Path) -> list[str]:
    """End the services a killed supervisor left running and return their names.

    Call it while holding the lock that keeps a second supervisor out: then no live supervisor owns what is found.
    """
    try:
        entries: list[dict[str, Any]] = json.loads((home / RECORD).read_text())
    except (OSError, ValueError):
        return []
    left = [entry for entry in entries if _is_left_over(entry)]
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 2.0)):
        for entry in left:
            if number == signal.SIGTERM and processes.runs(entry["pid"]):
                os.kill(entry["pid"], number)
            else:
                processes.signal_group(entry["pid"], number)
        processes.wait_until_gone([entry["pid"] for entry in left], seconds=seconds)
    (home / RECORD).unlink(missing_ok=True)
    return [entry["name"] for entry in left]


def _is_left_over(entry: dict[str, Any]) -> bool:
    """Tell whether the recorded process, or a child it left behind in its group, still lives.

    A process id is not given out again while a group of that number exists, so a group without its leader is ours.
    """
    now = processes.started_at(entry["pid"])
    return now == entry["started_at"] if now else processes.group_runs(entry["pid"])
