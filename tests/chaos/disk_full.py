"""Fill the disk of PostgreSQL while clients post (F9). For root on Linux, because it mounts a small file system.

    python -m tests.chaos.disk_full [--times 5] [--megabytes 256]

The server's data lie on a file system of their own (tmpfs). Each time a file takes what is free of it; every second
time the server also has to begin a new file of its log, which crashes it. Then the file goes, and a server that has
ended is started. Prints one JSON line; exits 1 where an acknowledged run is missing, an answer is not 201, 409 or
503, a request failed for good, or a row cannot be read or breaks a rule afterwards.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.servers import HOME, throw_away_servers  # names the throw-away servers before Django reads its settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

import psycopg  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402

from erl_site.embedded import postgres, valkey  # noqa: E402
from memory.projects.api_keys import create_api_key  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from tests.chaos.database import SETTINGS, OwnDatabase, own_database  # noqa: E402
from tests.chaos.load import Load, posting  # noqa: E402
from tests.chaos.profile import History  # noqa: E402
from tests.chaos.web import ChaosWeb  # noqa: E402
from tests.stack import ROOT  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

FULL_SECONDS = 3.0
REFUSED = 20  # answers to have met before there is room again


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """Mount a file system of its own of so many megabytes."""
    with tempfile.TemporaryDirectory(prefix="erl-disk-") as folder:
        Path(folder).chmod(0o755)
        options = f"size={megabytes}m,mode=0755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)  # noqa: S607
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S607


def fill(disk: Path) -> Path:
    """Take everything that is free, whatever is freed meanwhile included."""
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(b"\0" * 65536)
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(b"\0" * 512)
    return ballast


def begin_new_log_file(database: OwnDatabase) -> None:
    with suppress(psycopg.Error):
        database.connect().execute("SELECT pg_switch_wal()")


def is_ready(web: ChaosWeb) -> bool:
    try:
        with urllib.request.urlopen(f"{web.base_url}/ready", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def find_faults(database: OwnDatabase) -> list[str]:
    """Read every row, and ask for what must hold of them."""
    faults = []
    for command in ("verify_audit",):
        program = [sys.executable, str(ROOT / "manage.py"), command]
        ended = subprocess.run(
            program, capture_output=True, text=True, env=os.environ | {"DATABASE_URL": database.url}, check=False
        )
        if ended.returncode:
            faults.append(f"{command}: {(ended.stdout + ended.stderr).strip()[-500:]}")
    with database.connect() as client:
        tables = client.execute("SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            try:
                client.execute(f"SELECT sum(length(t::text)) FROM {table} t".encode())  # noqa: S608
            except psycopg.Error as error:
                faults.append(f"{table}: {error}")
    return faults


def run(*, times: int, megabytes: int) -> dict[str, Any]:
    """Fill the disk so often under load and return what was counted."""
    call_command("migrate", verbosity=0)
    valkey.ensure(HOME / "valkey", durable=False)
    token = create_api_key(Project.objects.create(slug="full", name="Full"), client="full").token
    history = History(name="F9")
    ready_seconds, crashes = [], 0
    with small_disk(megabytes) as disk, own_database(place=disk) as database:
        environment = {"DATABASE_URL": database.url, "CELERY_BROKER_URL": settings.CELERY_BROKER_URL}
        web = ChaosWeb(home=HOME, environment=environment | {"ERL_LOG_LEVEL": "ERROR"})
        web.start_web()
        load = Load(port=web.port, token=token, history=history)
        try:
            with posting(load):
                for number in range(times):
                    recorded = len(history.acknowledged)
                    wait_until(partial(history.has_more_than, recorded + 10), seconds=60)
                    before, end = load.not_recorded, time.monotonic() + FULL_SECONDS
                    ballast = fill(disk)
                    if number % 2:
                        begin_new_log_file(database)
                    while load.not_recorded < before + REFUSED or time.monotonic() < end:
                        assert time.monotonic() < end + 60, "nobody met the full disk"
                        fill(disk)
                        time.sleep(0.05)
                    ballast.unlink()
                    crashes += not postgres.is_running(database.home)
                    freed_at = time.monotonic()
                    postgres.ensure(database.home, durable=True, settings=SETTINGS, wait_seconds=60)
                    wait_until(lambda: is_ready(web))
                    ready_seconds.append(round(time.monotonic() - freed_at, 2))
            verdict = history.judge(database.tasks())
            faults = find_faults(database)
        finally:
            web.kill_all()
    return {
        "fault": "F9",
        "times": times,
        "server_had_ended": crashes,
        **verdict.counts(),
        "failed": len(load.failed),
        "statuses": dict(sorted(load.statuses.items())),
        "hangs": load.hangs,
        "slowest_seconds": load.slowest_seconds,
        "ready_seconds": max(ready_seconds),
        "faults_of_rows": faults,
        "load": [round(each, 1) for each in os.getloadavg()],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=256)
    options = parser.parse_args()
    with throw_away_servers():
        result = run(times=options.times, megabytes=options.megabytes)
    print(json.dumps(result))
    unexpected = result["statuses"].keys() - {"201", "409", "503"}
    bad = ("lost", "duplicated", "unexpected", "failed", "faults_of_rows")
    return 1 if unexpected or any(result[name] for name in bad) else 0


if __name__ == "__main__":
    sys.exit(main())
