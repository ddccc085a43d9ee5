"""A PostgreSQL of one's own that waits for the disk, and ways to break it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from django.conf import settings
from django.db import connection

from erl_site.embedded import postgres
from erl_site.embedded.accounts import find_binaries
from tests.stack import database_url

SETTINGS = ("max_connections=30", "shared_buffers=32MB")
USER, NAME = "postgres", "erl"


@dataclass(frozen=True, kw_only=True)
class OwnDatabase:
    """A server with one database: a copy of the tests' one at the moment it was made."""

    home: Path
    url: str

    def connect(self, **options: Any) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True, connect_timeout=5, **options)

    def tasks(self) -> list[str]:
        """Return the task of every run that is there."""
        with self.connect() as client:
            return [task for (task,) in client.execute("SELECT task FROM memory_trajectory")]

    def settings(self, *names: str) -> dict[str, str]:
        with self.connect() as client:
            return {name: str(client.execute(f"SHOW {name}").fetchone()[0]) for name in names}  # type: ignore[index]

    def change_settings(self, *changes: str) -> None:
        """Change the server's settings, for the connections that come from now on: `SET fsync = off`, `RESET fsync`."""
        with self.connect() as client:
            for change in changes:
                client.execute(f"ALTER SYSTEM {change}".encode())
            client.execute("SELECT pg_reload_conf()")
        self.end_backends()

    def restart_at_once(self) -> None:
        """Stop without a checkpoint, as a crash does, and start: it recovers from its log."""
        postgres.stop(self.home, "immediate")
        postgres.ensure(self.home, durable=True, settings=SETTINGS, wait_seconds=60)

    def end_backends(self) -> int:
        """Take every client's connection away; return how many there were."""
        with self.connect() as client:
            return len(client.execute(_END_OTHERS).fetchall())

    def kill_backend(self) -> None:
        """Kill the process of a client with -9: the server ends all others and recovers by itself."""
        client = self.connect()
        try:
            found = client.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend' LIMIT 1"
            ).fetchone()
            assert found is not None, "no client is connected"
            os.kill(found[0], signal.SIGKILL)
            with suppress(psycopg.Error):
                client.execute("SELECT pg_sleep(10)")  # until the server takes this connection too
        finally:
            client.close()
        postgres.ensure(self.home, durable=True, settings=SETTINGS, wait_seconds=60)

    def pause(self, seconds: float) -> None:
        """Freeze the server and everything that belongs to it."""
        lines = (self.home / "data" / "postmaster.pid").read_text().split("\n")
        server = psutil.Process(int(lines[0]))
        frozen = [server, *server.children(recursive=True)]
        for process in frozen:
            with suppress(psutil.Error):
                process.suspend()
        try:
            time.sleep(seconds)
        finally:
            for process in frozen:
                with suppress(psutil.Error):
                    process.resume()

    def take_every_connection(self, *, until: Callable[[], bool]) -> int:
        """Leave no connection to others until a condition holds, a minute at most; return how many this took."""
        taken = [self.connect()]
        end = time.monotonic() + 60
        try:
            while not until() and time.monotonic() < end:
                try:
                    taken.append(self.connect())
                except psycopg.OperationalError:  # too many clients: those of others go
                    taken[0].execute(_END_OTHERS_BUT, [[each.info.backend_pid for each in taken]])
                    time.sleep(0.02)
            return len(taken)
        finally:
            for client in taken:
                client.close()


_END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
_END_OTHERS_BUT = f"{_END_OTHERS} AND pid <> ALL(%s)"


@contextmanager
def own_database(*, place: Path | None = None) -> Iterator[OwnDatabase]:
    """Copy the tests' database to a server of its own, with fsync on; remove all of it afterwards.

    Args:
        place: folder for the server's data; None makes one.
    """
    home = Path(tempfile.mkdtemp(prefix="erl-own-", dir=place)).resolve()
    home.chmod(0o755)
    try:
        url = postgres.ensure(home, durable=True, user=USER, dbname=NAME, settings=SETTINGS)
        owner = connection.settings_dict | settings.ERL_DATABASE_OWNER
        _copy(database_url(owner), url, home / "dump.sql")
        yield OwnDatabase(home=home, url=url)
    finally:
        postgres.discard(home)
        shutil.rmtree(home, ignore_errors=True)


def _copy(source: str, target: str, file: Path) -> None:
    programs = find_binaries()
    for program, *options in (
        ["pg_dump", "--format=custom", f"--file={file}", f"--dbname={source}"],
        ["pg_restore", "--no-owner", "--no-privileges", "--exit-on-error", f"--dbname={target}", str(file)],
    ):
        ended = subprocess.run([str(programs / program), *options], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{program}: {ended.stderr}"
    file.unlink()
