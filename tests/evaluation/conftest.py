"""One small evaluation run by the command, shared by several tests."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from psycopg import sql
from pytest_django.plugin import DjangoDbBlocker

from evaluation.models import EvaluationRun
from tests.factories import make_heuristic, make_trajectory

ARMS = ("random:5", "hybrid:5", "shuffled", "flipped", "poison-unapproved", "poison-approved")
SMALL = ("--limit", "48", "--experience", "32", "--quiet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """What the command wrote and stored, with hashes of all live tables before and after."""

    report: dict[str, Any]
    text: str
    html: str
    junit: str
    stored: EvaluationRun
    before: dict[str, str]
    after: dict[str, str]


def hash_tables() -> dict[str, str]:
    """Hash all rows of every table except the one for evaluations."""
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    hashes = {}
    with connection.cursor() as cursor:
        for table in sorted(tables - {EvaluationRun._meta.db_table}):
            statement = sql.SQL("SELECT md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '')) FROM {} t")
            cursor.execute(statement.format(sql.Identifier(table)).as_string(cursor.connection))
            hashes[table] = cursor.fetchone()[0]
    return hashes


def evaluate(*arguments: str) -> str:
    """Run the command and return its output."""
    output = io.StringIO()
    call_command("evaluate", *arguments, stdout=output, stderr=io.StringIO())
    return output.getvalue()


@pytest.fixture(scope="module")
def evaluated(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Evaluated]:
    folder: Path = tmp_path_factory.mktemp("evaluation")
    files = {name: folder / f"report.{name}" for name in ("json", "html", "junit")}
    written = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    with django_db_blocker.unblock():
        heuristic = make_heuristic(trajectory=make_trajectory(), status="approved")
        before = hash_tables()
        text = evaluate("--suite", "toolchoice", "--arms", *ARMS, *SMALL, *written)
        after = hash_tables()
        stored = EvaluationRun.objects.get()
    yield Evaluated(
        report=json.loads(files["json"].read_text()),
        text=text,
        html=files["html"].read_text(),
        junit=files["junit"].read_text(),
        stored=stored,
        before=before,
        after=after,
    )
    with django_db_blocker.unblock():
        EvaluationRun.objects.all().delete()
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE memory_project CASCADE")
    assert heuristic.pk
