"""The servers of the test network: PostgreSQL and its replica, PgBouncer, Valkey, web hosts, workers, HAProxy."""

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psycopg
from psycopg.conninfo import make_conninfo

from erl_site.embedded import postgres, valkey
from erl_site.embedded.accounts import choose_account
from erl_site.embedded.roles import ADMINISTRATOR
from tests.cluster.balancer import make_command
from tests.cluster.hosts import NETWORK, Host
from tests.programs import find_program
from tests.stack import adopt
from tests.waiting import wait_until

DATABASE_PORT, POOLER_PORT, BROKER_PORT, WEB_PORT = 5432, 6432, 6379, 8000
_ENSURE = """
import sys
from pathlib import Path
from erl_site.embedded import postgres
postgres.ensure(Path(sys.argv[1]), durable=True, settings=sys.argv[2:])
"""
_POOLER = """
[databases]
erl = host={primary} port={port} user=erl

[pgbouncer]
listen_addr = *
listen_port = {pooler_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 16
max_client_conn = 500
"""


@dataclass(kw_only=True)
class Database:
    """A PostgreSQL on a host, reached by TCP from the others and by its socket from here."""

    host: Host
    home: Path

    @property
    def url(self) -> str:
        return make_conninfo(
            host=str(postgres.socket_dir(self.home)), port=postgres.PORT, user=ADMINISTRATOR, dbname="erl"
        )

    def start(self, log: IO[bytes]) -> None:
        """Start it, and let the network in."""
        settings = (f"listen_addresses={self.host.address}", "max_connections=200", "shared_buffers=64MB", "jit=off")
        started = self.host.start(sys.executable, "-c", _ENSURE, str(self.home), *settings, log=log)
        if started.wait(180) != 0:
            raise SystemExit("PostgreSQL does not start.")
        rules = self.home / "data" / "pg_hba.conf"
        network = f"{NETWORK}.0/24 trust"
        rules.write_text(f"local all all trust\nhost all all {network}\nhost replication all {network}\n")
        self.run("SELECT pg_reload_conf()")

    def follow(self, primary: "Database", log: IO[bytes]) -> None:
        """Copy a primary and follow it, then let each commit wait for the copy."""
        with tempfile.TemporaryDirectory() as folder:
            backup = Path(folder) / "backup"
            program = choose_account(self.home).binaries / "pg_basebackup"
            where = f"host={primary.host.address} port={DATABASE_PORT} user={ADMINISTRATOR}"
            subprocess.run([program, f"--dbname={where}", "--checkpoint=fast", f"--pgdata={backup}"], check=True)
            adopt(self.home, backup)
        uid = choose_account(self.home).uid
        conf = f"primary_conninfo = '{where} application_name=replica'\nwal_receiver_status_interval = 1\n"
        for name, text in (("standby.signal", ""), ("postgresql.auto.conf", conf)):
            (self.home / "data" / name).write_text(text)
            os.chown(self.home / "data" / name, uid, -1)
        self.start(log)
        primary.run("ALTER SYSTEM SET synchronous_standby_names = 'replica'")
        primary.run("SELECT pg_reload_conf()")
        wait_until(lambda: primary.run("SELECT sync_state FROM pg_stat_replication") == "sync")

    def run(self, statement: str) -> object:
        """Run a statement as the administrator; return its first value."""
        with psycopg.connect(self.url, autocommit=True) as server:
            cursor = server.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None


@dataclass(kw_only=True)
class Network:
    """All hosts, and the command that started each."""

    home: Path
    cores: float
    log: IO[bytes]
    hosts: dict[str, Host] = field(default_factory=dict)
    _balancer: subprocess.Popen[bytes] | None = None

    def add(self, name: str, number: int, *, cores: float = 0.0) -> Host:
        self.hosts[name] = Host(name=name, number=number, cores=cores)
        return self.hosts[name]

    def start_broker(self, number: int) -> str:
        """Start Valkey; return its URL."""
        host = self.add("valkey", number)
        options = ("--bind", host.address, "--port", str(BROKER_PORT), "--save", "", "--protected-mode", "no")
        host.start(str(valkey.find_server()), *options, log=self.log)
        return f"redis://{host.address}:{BROKER_PORT}/0"

    def start_pooler(self, number: int, primary: Host) -> str:
        """Start PgBouncer where it is installed; return the URL of the database by it, or ""."""
        program = find_program("pgbouncer")
        if program is None:
            return ""
        host, folder = self.add("pooler", number), self.home / "pooler"
        folder.mkdir()
        account = choose_account(self.home / "postgres")
        text = _POOLER.format(primary=primary.address, port=DATABASE_PORT, pooler_port=POOLER_PORT)
        (folder / "pgbouncer.ini").write_text(text)
        for path in (folder, folder / "pgbouncer.ini"):
            os.chown(path, account.uid, -1)
        host.start(*account.prefix, program, "--quiet", str(folder / "pgbouncer.ini"), log=self.log)
        return f"postgresql://erl@{host.address}:{POOLER_PORT}/erl"

    def start_web(self, number: int, **environment: str) -> Host:
        """Start a web server on a host of its own; `wait_for` waits until it answers."""
        host = self.add(f"web{number}", 20 + number)
        place = ("--bind", f"{host.address}:{WEB_PORT}", "--workers", "1", "--threads", "4")
        options = ("--config=python:erl_site.web.gunicorn_config", "--no-control-socket")
        host.start(sys.executable, "-m", "gunicorn", "erl_site.asgi", *options, *place, log=self.log, **environment)
        return host

    def start_worker(self, number: int, **environment: str) -> Host:
        """Start a worker on a host of its own."""
        host = self.add(f"worker{number}", 30 + number)
        options = ("-P", "prefork", "-c", "1", "--without-mingle", "--without-gossip", "-n", host.name)
        host.start(sys.executable, "-m", "celery", "-A", "erl_site", "worker", *options, log=self.log, **environment)
        return host

    def balance(self, hosts: list[Host]) -> str:
        """Put HAProxy before these web hosts; return its address."""
        host = self.hosts.get("balancer") or self.add("balancer", 9)
        if self._balancer is not None:
            self._balancer.kill()
            self._balancer.wait()
        servers = [f"{each.address}:{WEB_PORT}" for each in hosts]
        program = find_program("haproxy")
        if program is None:
            raise SystemExit("Install HAProxy: it stands before the web hosts.")
        file = self.home / "haproxy.cfg"
        command = make_command(program, file, place=f"{host.address}:80", servers=servers)
        self._balancer = host.start(*command, log=self.log)
        self.wait_for(f"http://{host.address}/health")
        return host.address

    def wait_for(self, url: str, *, seconds: float = 180.0) -> None:
        """Wait until an address answers."""
        end = time.monotonic() + seconds
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
            except OSError:
                if time.monotonic() > end:
                    raise SystemExit(f"{url} does not answer. The log of the servers is {self.log.name}.") from None
                time.sleep(0.2)
            else:
                return
