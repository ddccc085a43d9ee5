"""The database can be brought back as it was at a moment: base backup, archived log, erasures (reliability C8)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import override_settings
from pytest_django.plugin import DjangoDbBlocker

from erl_site.embedded import postgres
from erl_site.programs import find_program, run_program, write_url
from memory.curation.decisions import approve_heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from tests.factories import make_heuristic, make_project, make_trajectory
from tests.stack import ROOT

pytestmark = pytest.mark.slow

BY = Actor(label="user:ops")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
PLACE = "/var/lib/postgresql/archive"  # that compose.yaml archives to


@dataclass(frozen=True, kw_only=True)
class Past:
    """What was recorded about a server that is gone, and what was true at the moment to recover to."""

    base: Path
    archive: Path
    ledger: Path
    moment: datetime
    ended: datetime
    project: Project
    present: set[str]  # runs there were at the moment, besides the one that was erased later
    answer: list[Any]

    def drill(self, *arguments: object) -> dict[str, Any]:
        output = StringIO()
        places = [str(self.base), str(self.archive)]
        call_command("recovery_drill", *places, "--json", *map(str, arguments), stdout=output, stderr=StringIO())
        return dict(json.loads(output.getvalue()))


def archiving(archive: Path) -> list[str]:
    """Settings of the server of compose.yaml, which archives here."""
    given = [part.removeprefix("--") for part in COMPOSE["services"]["database"]["command"][1:]]
    settings = [part.replace("${POSTGRES_ARCHIVE:-off}", "on").replace("$$", "$") for part in given]
    return [part.replace(PLACE, f"'{archive}'".replace("%", "%%")) for part in settings]


def copy_server(target: Path) -> Path:
    """Make a base backup of the server that Django is connected to."""
    connection.ensure_connection()
    place = connection.settings_dict
    where = ["--host", place["HOST"], "--port", str(place["PORT"]), "--username", place["USER"]]
    run_program(find_program("pg_basebackup"), *where, "--checkpoint=fast", "--pgdata", str(target))
    return target


@contextmanager
def connected_to(home: Path, settings: Iterable[str] = ()) -> Iterator[None]:
    """Run a server under `home`, on the data that are there, and connect Django to it."""
    place = connection.settings_dict
    connection.close()
    with override_settings(ERL_HOME=home):
        postgres.ensure(home / "postgres", user=place["USER"], dbname=place["NAME"], settings=settings, durable=False)
        try:
            yield
        finally:
            connection.close()
            postgres.stop(home / "postgres", "immediate")


def ask(project: Project) -> list[Any]:
    items = retrieve(Question(project=project, task="Cancel a reservation", by=Actor(label="key:agent"))).items
    return [(item["id"], item["content_sha256"], item["scores"]) for item in items]


def now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return datetime.fromisoformat(str(cursor.fetchone()[0]))


def wait_for_archive() -> None:
    """End the segment of the log that is being written, and wait until it is archived."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_walfile_name(pg_switch_wal())")
        (last,) = cursor.fetchone()
        for _ in range(600):
            cursor.execute("SELECT last_archived_wal >= %s FROM pg_stat_archiver", [last])
            if cursor.fetchone()[0]:
                return
            time.sleep(0.05)
    raise AssertionError("the log was not archived")


@pytest.fixture(scope="module")
def past(django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Past:
    folder = tmp_path_factory.mktemp("past")
    archive = folder / "100% of it"
    with django_db_blocker.unblock():
        postgres.adopt(folder / "postgres", copy_server(folder / "seed"))
        with connected_to(folder, archiving(archive)):
            project = make_project(name="past")
            early, canary = make_trajectory(project=project), make_trajectory(project=project, task="canary")
            embed_heuristics([approve_heuristic(make_heuristic(trajectory=early), by=BY).pk])
            base = copy_server(folder / "base")
            later = make_trajectory(project=project)
            embed_heuristics([approve_heuristic(make_heuristic(trajectory=later), by=BY).pk])
            moment, answer = now(), ask(project)
            erase_trajectory(canary, by=BY)
            approve_heuristic(make_heuristic(trajectory=make_trajectory(project=project)), by=BY)
            call_command("erase", "--export", str(folder / "erasures.txt"), stdout=StringIO())
            wait_for_archive()
            ended = now()
    postgres.discard(folder / "postgres")
    return Past(
        base=base,
        archive=archive,
        ledger=folder / "erasures.txt",
        moment=moment,
        ended=ended,
        project=project,
        present={str(early.pk), str(later.pk)},
        answer=answer,
    )


@pytest.mark.django_db(transaction=True)
def test_database_is_as_it_was_at_the_moment_but_for_what_was_erased(past: Past, tmp_path: Path) -> None:
    came_to = past.drill("--until", past.moment.isoformat(), "--erasures", past.ledger, "--keep", tmp_path / "postgres")

    assert (came_to["faults"], came_to["erasures_replayed"]) == ([], 1)
    assert datetime.fromisoformat(came_to["last_change_at"]) <= past.moment
    with connected_to(tmp_path):
        runs = {str(id) for id in Trajectory.objects.filter(project=past.project).values_list("pk", flat=True)}
        assert runs == past.present, "of what came later there is nothing, and nothing of what was erased"
        assert len(past.answer) == 2
        assert ask(past.project) == past.answer


@pytest.mark.django_db
@pytest.mark.parametrize("doing", ["Copying it", "Checking what"])
def test_drill_that_is_ended_leaves_nothing_behind(past: Past, tmp_path: Path, doing: str) -> None:
    environment = os.environ | {"DATABASE_URL": write_url(connection.settings_dict["NAME"]), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "manage.py", "recovery_drill", str(past.base), str(past.archive)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as drill:
        assert drill.stderr is not None
        assert any(line.startswith(doing) for line in drill.stderr)
        drill.send_signal(signal.SIGTERM)
        drill.communicate(timeout=60)

    assert drill.returncode == 1
    assert [*tmp_path.iterdir()] == []
    assert not any(str(tmp_path) in " ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"]))


def test_audit_that_is_not_the_one_that_was_noted_is_found(past: Past) -> None:
    with pytest.raises(CommandError, match="not whole"):
        past.drill("--head", f"{past.project.pk}:1:{'0' * 64}")


def test_time_that_the_archive_does_not_reach_is_named(past: Past) -> None:
    with pytest.raises(CommandError, match="The archived log ends before that time"):
        past.drill("--until", past.ended + timedelta(microseconds=1))


def test_time_before_the_backup_needs_an_older_one(past: Past) -> None:
    with pytest.raises(CommandError, match="Take an older base backup"):
        past.drill("--until", past.moment - timedelta(days=1))


def test_gap_in_the_archive_is_found(past: Past, tmp_path: Path) -> None:
    shutil.copytree(past.archive, tmp_path / "archive")
    last = max(path for path in (tmp_path / "archive").iterdir() if "backup" not in path.name)
    after_a_gap = f"{int(last.name[:24], 16) + 2:024X}"
    (tmp_path / "archive" / f"{after_a_gap}.gz").touch()

    with pytest.raises(CommandError, match=f"lacks {int(last.name[:24], 16) + 1:024X}"):
        call_command("recovery_drill", past.base, tmp_path / "archive", stderr=StringIO())


def test_damaged_log_is_found(past: Past, tmp_path: Path) -> None:
    shutil.copytree(past.archive, tmp_path / "archive")
    last = max(path for path in (tmp_path / "archive").iterdir() if "backup" not in path.name)
    last.write_bytes(last.read_bytes()[:-1000])

    with pytest.raises(CommandError, match=f"{last.name} cannot be read"):
        call_command("recovery_drill", past.base, tmp_path / "archive", stderr=StringIO())


def test_damaged_backup_is_found(past: Past, tmp_path: Path) -> None:
    shutil.copytree(past.base, tmp_path / "base", symlinks=True)
    (tmp_path / "base" / "global" / "pg_filenode.map").write_bytes(b"\0" * 524)

    with pytest.raises(CommandError, match="pg_verifybackup failed"):
        call_command("recovery_drill", tmp_path / "base", past.archive, stderr=StringIO())


def test_tablespaces_elsewhere_are_refused(past: Past, tmp_path: Path) -> None:
    shutil.copytree(past.base, tmp_path / "base", symlinks=True)
    (tmp_path / "base" / "pg_tblspc" / "16999").symlink_to(tmp_path)

    with pytest.raises(CommandError, match="has tablespaces"):
        call_command("recovery_drill", tmp_path / "base", past.archive, stderr=StringIO())


def test_database_that_the_backup_does_not_have_is_named(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", "another")

    with pytest.raises(CommandError, match="has no database another"):
        past.drill()


@pytest.mark.parametrize("option", [("--head", "foo"), ("--erasures", __file__)], ids=lambda option: option[0])
def test_typing_error_is_no_bad_backup(option: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"is no (head|ledger)"):
        call_command("recovery_drill", tmp_path, tmp_path, *option, stderr=StringIO())


def test_folder_that_is_no_backup_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is no base backup"):
        call_command("recovery_drill", tmp_path, tmp_path, stderr=StringIO())
