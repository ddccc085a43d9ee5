"""The product as processes: gunicorn and a Celery worker on the tests' database and broker."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from redis.exceptions import ConnectionError as RedisConnectionError

from erl_site.backup import find_program, run_program
from erl_site.embedded import postgres
from erl_site.embedded.accounts import choose_account
from erl_site.embedded.roles import ADMINISTRATOR

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = tuple(name for name in settings.INSTALLED_APPS if (ROOT / name).is_dir())  # of the project
# One client asks and records as fast as it can here, and nobody reviews the lessons.
DEFAULTS = {
    "ERL_RETRIEVE_MEMORY_MB": "64",
    "ERL_PENDING_PROPOSALS_PER_CLIENT": "0",
    "ERL_RATE_LIMITS": "retrieve=100000000/60,trajectories:write=100000000/60,reflect=600/60,failed=1000/60",
}
_stacks: list["Stack"] = []


def database_url(settings: dict[str, Any]) -> str:
    """Return the URL of a database from Django's settings of a connection."""
    user, password = quote(settings["USER"]), quote(settings["PASSWORD"] or "")
    host, port = settings["HOST"] or "localhost", str(settings["PORT"] or 5432)
    credentials = f"{user}:{password}" if password else user
    if host.startswith("/"):
        return f"postgresql://{credentials}@/{settings['NAME']}?{urlencode({'host': host, 'port': port})}"
    return f"postgresql://{credentials}@{host}:{port}/{settings['NAME']}"


def adopt(home: Path, backup: Path) -> None:
    """Make a base backup the data of a server under `home`, which has none yet."""
    home.mkdir(parents=True, exist_ok=True)
    account = choose_account(home)
    data = (home / "data").resolve()
    shutil.copytree(backup, data, dirs_exist_ok=True)
    for name in ("postgresql.conf", "postgresql.auto.conf", "pg_ident.conf"):
        (data / name).write_text("")
    (data / "pg_hba.conf").write_text("local all all trust\nlocal replication all trust\n")
    (data / "postmaster.pid").unlink(missing_ok=True)
    data.chmod(0o700)
    if account.uid != os.geteuid():
        for path in (data, *data.rglob("*")):
            os.chown(path, account.uid, -1, follow_symlinks=False)


def migrated_home(home: Path) -> Path:
    """Put a PostgreSQL under a home whose database `erl` has its tables, and no rows: a copy of the tests' server."""
    from tests.servers import HOME  # changes the environment of a benchmark, which has servers of its own

    with tempfile.TemporaryDirectory() as folder:
        backup = Path(folder) / "backup"
        where = ["--host", str(postgres.socket_dir(HOME / "postgres")), "--port", str(postgres.PORT)]
        where += ["--username", ADMINISTRATOR]
        run_program(find_program("pg_basebackup"), *where, "--checkpoint=fast", "--no-sync", f"--pgdata={backup}")
        adopt((home / "postgres").resolve(), backup)
    return home


def manage(home: Path, *arguments: str) -> str:
    """Run a command of manage.py on a home, and return what it printed; it has to succeed."""
    environment = os.environ | {"ERL_HOME": str(home), "ERL_RETRIEVE_MEMORY_MB": "0"}
    environment.pop("DATABASE_URL", None)
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def free_port() -> int:
    """Return a port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def kill_workers() -> None:
    """Kill the worker of every stack, so that a test has the queue to itself; `stack` starts its own again."""
    for stack in _stacks:
        if "worker" in stack.processes:
            stack.kill("worker")


@dataclass(kw_only=True)
class Stack:
    """Web server and worker, started and stopped one by one. `environment` is what both of them see."""

    home: Path
    environment: dict[str, str]
    root: Path = ROOT  # of the code
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _stacks.append(self)

    @property
    def base_url(self) -> str:
        """Root of the web server; the API is under /api/v1."""
        return f"http://127.0.0.1:{self.port}"

    def start_web(self) -> None:
        """Start gunicorn and wait until it answers."""
        place = ["--bind", f"127.0.0.1:{self.port}", "--workers", "1", "--threads", "4"]
        options = ["--config=python:erl_site.web.gunicorn_config", "--no-control-socket"]
        self._start("web", "gunicorn", "erl_site.asgi", *options, *place)
        self._wait("web", self._web_answers)

    def start_worker(self, name: str = "worker", *, concurrency: int = 2) -> None:
        """Start a Celery worker and wait until it answers."""
        options = ["-P", "prefork", "-c", str(concurrency), "--without-mingle", "--without-gossip"]
        self._start(name, "celery", "-A", "erl_site", "worker", *options, "-n", f"{name}@{self.port}")
        self._wait(name, lambda: self._worker_answers(name))

    def start_beat(self) -> None:
        """Start the scheduler, which says nothing when it is ready."""
        schedule = str(self.home / "celerybeat-schedule")
        self._start("beat", "celery", "-A", "erl_site", "beat", "--schedule", schedule, "--pidfile=")

    def start_lane(self, queue: str) -> None:
        """Start a worker with one process that serves one queue, and wait until it answers."""
        options = ["-P", "prefork", "-c", "1", "-Q", queue, "--without-mingle", "--without-gossip"]
        self._start("worker", "celery", "-A", "erl_site", "worker", *options, "-n", f"worker@{self.port}")
        self._wait("worker", lambda: self._worker_answers("worker"))

    def kill(self, name: str) -> None:
        """Kill a process and its children with -9."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str, *, seconds: float = 15.0) -> None:
        """Ask a process to end; kill it where it does not in time."""
        self.processes[name].terminate()
        try:
            self.processes[name].wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill(name)
        else:
            del self.processes[name]

    def kill_all(self) -> None:
        """Leave no process behind."""
        for name in [*self.processes]:
            self.kill(name)

    def log(self, name: str) -> str:
        """Return what a process wrote."""
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")

    def _start(self, name: str, module: str, *arguments: str) -> None:
        log = self.home / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self.root,
                env=os.environ | DEFAULTS | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _wait(self, name: str, answers: Any, *, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not answers():
            if self.processes[name].poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{name} does not answer:\n{self.log(name)[-4000:]}")
            time.sleep(0.1)

    def _web_answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.base_url}/health", timeout=5).close()
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            return False
        return True

    def _worker_answers(self, name: str, *, seconds: float = 0.5) -> bool:
        from erl_site.celery import app

        try:
            return bool(app.control.ping(destination=[f"{name}@{self.port}"], timeout=seconds))
        except (OSError, RedisConnectionError):  # the broker was killed or comes back just now
            return False
