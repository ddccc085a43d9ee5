"""A real PgBouncer in transaction mode, in the worst case: every transaction uses another server connection."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from erl_site.embedded.accounts import choose_account
from tests.programs import require_program
from tests.servers import HOME
from tests.stack import free_port
from tests.waiting import wait_until

CONNECTIONS = 3
CONFIGURATION = """
[databases]
* = host='{host}' port={server_port} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = {user}
pool_mode = transaction
default_pool_size = {connections}
server_round_robin = 1
ignore_startup_parameters = {ignored}
logfile = {folder}/pgbouncer.log
"""


@dataclass(frozen=True, kw_only=True)
class Pooler:
    """Where it listens, and for whom it connects to which database."""

    user: str
    database: str
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{self.database}"

    def connect(self, database: str = "") -> psycopg.Connection[Any]:
        """Connect as something that prepares nothing, to the pooler's own console where that is named."""
        return psycopg.connect(
            f"postgresql://{self.user}@127.0.0.1:{self.port}/{database or self.database}",
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.ClientCursor,
        )

    def answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def count_transactions(self) -> int:
        with self.connect("pgbouncer") as console:
            cursor = console.execute("SHOW STATS_TOTALS")
            names = [column.name for column in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
        return next(int(row["xact_count"]) for row in rows if row["database"] == self.database)


@contextmanager
def pooled(settings: dict[str, Any], *, ignored: str = "") -> Iterator[Pooler]:
    """Run a PgBouncer before a database of the tests' server, which is given as Django has it.

    Args:
        ignored: start-up parameters that it takes and does nothing with; any other it does not know it refuses.
    """
    program = require_program("pgbouncer")
    pooler = Pooler(user=settings["USER"], database=settings["NAME"])
    account = choose_account(HOME / "postgres")  # PgBouncer, too, refuses to run as root
    with tempfile.TemporaryDirectory(prefix="erl-pooler-") as folder:
        configuration = Path(folder) / "pgbouncer.ini"
        configuration.write_text(
            CONFIGURATION.format(
                host=settings["HOST"],
                server_port=settings["PORT"] or 5432,
                user=pooler.user,
                port=pooler.port,
                connections=CONNECTIONS,
                folder=folder,
                ignored=ignored,
            )
        )
        if account.uid:
            for path in (Path(folder), configuration):
                shutil.chown(path, account.uid)
        process = subprocess.Popen([*account.prefix, program, "--quiet", str(configuration)])
        try:
            wait_until(lambda: process.poll() is not None or pooler.answers())
            assert process.poll() is None, "PgBouncer ended"
            yield pooler
        finally:
            process.send_signal(signal.SIGTERM)  # at once; SIGINT waits for clients
            process.wait(10)
