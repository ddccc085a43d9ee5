"""A streaming replica of a PostgreSQL of the tests."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from erl_site.backup import find_program, run_program
from erl_site.embedded import postgres
from erl_site.embedded.accounts import choose_account
from erl_site.embedded.roles import ADMINISTRATOR
from tests.stack import adopt
from tests.waiting import wait_until


@dataclass(frozen=True, kw_only=True)
class StreamingReplica:
    """A server that replays what its primary writes."""

    home: Path
    url: str

    def run(self, statement: str) -> Any:
        """Run a statement as the administrator; return its first value."""
        with psycopg.connect(self.url, user=ADMINISTRATOR, autocommit=True) as server:
            (value,) = server.execute(statement.encode()).fetchone() or (None,)
            return value

    def pause(self) -> None:
        """Fall behind the primary from here on."""
        self.run("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.run("SELECT pg_get_wal_replay_pause_state()") == "paused")

    def resume(self) -> None:
        """Catch up with the primary."""
        self.run("SELECT pg_wal_replay_resume()")

    def promote(self) -> None:
        """Make it a primary of its own."""
        assert self.run("SELECT pg_promote()")

    def count_readers(self, user: str) -> int:
        """Return how many connections this user has."""
        return int(self.run(f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}'"))  # noqa: S608

    def stop(self) -> None:
        """End it at once, as a crash does."""
        postgres.stop(self.home, "immediate")


def start_replica(primary: Path, home: Path, *, dbname: str) -> StreamingReplica:
    """Copy the server under the home `primary`, and let the copy follow it."""
    where = f"host={postgres.socket_dir(primary)} port={postgres.PORT} user={ADMINISTRATOR}"
    with tempfile.TemporaryDirectory() as folder:
        backup = Path(folder) / "backup"
        arguments = ("--checkpoint=fast", "--no-sync", f"--pgdata={backup}")
        run_program(find_program("pg_basebackup"), f"--dbname={where}", *arguments)
        adopt(home, backup)
    for name in ("standby.signal", "postgresql.auto.conf"):
        (home / "data" / name).write_text(f"primary_conninfo = '{where}'\n" if name.endswith("conf") else "")
        os.chown(home / "data" / name, choose_account(home).uid, -1)
    url = postgres.ensure(home, durable=False, dbname=dbname)
    return StreamingReplica(home=home, url=url)
