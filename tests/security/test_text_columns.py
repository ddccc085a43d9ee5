"""The register of text columns is complete, and says what an erasure really does (reliability C10)."""

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db import connection

from memory.heuristics.models import Heuristic
from memory.ids import uuid7
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from memory.trust.text_columns import Fate, find_tables_of_runs, read_fates
from reflection.consolidation.models import ConsolidationRun, Suggestion
from reflection.jobs.models import Job
from reflection.webhooks.models import WebhookDelivery
from tests.factories import make_project
from tests.security.any_rows import fill
from tests.security.test_erasure import every_row

pytestmark = pytest.mark.django_db

_TEXT = """
SELECT table_name, column_name, udt_name FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
  AND NOT (SELECT relispartition FROM pg_class WHERE oid = format('%I.%I', table_schema, table_name)::regclass)
  AND udt_name IN ('text', 'varchar', 'bpchar', 'json', 'jsonb', 'bytea', 'xml', 'tsvector', 'hstore', '_text',
                   '_varchar', '_json', '_jsonb', '_bytea')
"""
# What links the rows that `fill` left apart, all of them to the one run.
_LINKS = """
UPDATE memory_trajectory SET retrieval_id = (SELECT id FROM memory_retrieval), created_at = now();
UPDATE memory_retrieval SET created_at = now(), heuristic_ids = ARRAY[(SELECT id FROM memory_heuristic)],
    injected_ids = ARRAY[(SELECT id FROM memory_heuristic)];
UPDATE memory_idempotencyrecord SET resource_id = (SELECT id FROM memory_retrieval);
UPDATE memory_blockrevision SET run_id = (SELECT id FROM memory_trajectory);
UPDATE memory_passage SET run_id = (SELECT id FROM memory_trajectory);
UPDATE memory_heuristicfeedback SET trajectory_id = (SELECT id FROM memory_trajectory);
UPDATE memory_heuristic SET current_revision_id = (SELECT id FROM memory_heuristicrevision);
UPDATE memory_heuristicrevision SET lineage = ARRAY[id];
UPDATE memory_comment SET object_id = (SELECT id FROM memory_heuristic);
UPDATE memory_wordorigin SET trajectory_id = (SELECT id FROM memory_trajectory),
    wording_id = (SELECT id FROM memory_heuristicrevision);
UPDATE reflection_consolidationrun SET until = now() + interval '1 day', since = NULL;
ALTER TABLE agents_toolrevision DROP CONSTRAINT agents_toolrevision_fits_runtime;
UPDATE agents_compaction SET summarised_through = 1, summary = 'x';
UPDATE agents_message SET run_id = (SELECT id FROM agents_run);
UPDATE agents_run SET status = 'failed', stop_reason = 'error', finished_at = now(),
    trajectory_id = (SELECT id FROM memory_trajectory);
UPDATE reflection_modelcall SET job_id = (SELECT job_ptr_id FROM reflection_reflection);
"""
_SHAPES = {
    "memory_retrieval.items": """jsonb_build_array(jsonb_build_object('heuristic', '', 'reason', %(word)s))""",
    "memory_trajectory.steps": """jsonb_build_array(jsonb_build_object('thought', %(word)s))""",
}
_VALUES = {
    "text": "%(word)s",
    "varchar": "%(word)s",
    "tsvector": "to_tsvector('simple', %(word)s)",
    "bytea": "convert_to(%(word)s, 'UTF8')",
    "_text": "ARRAY[%(word)s]",
}


def text_columns() -> dict[tuple[str, str], str]:
    """Return every column of the migrated database that can hold text, with its type."""
    with connection.cursor() as cursor:
        cursor.execute(_TEXT)
        return {(table, column): kind for table, column, kind in cursor.fetchall()}


def test_every_text_column_is_registered() -> None:
    assert set(read_fates()) == set(text_columns())


@pytest.mark.parametrize("kind", ["text", "varchar(20)", "jsonb", "bytea", "text[]"])
def test_new_column_is_missed_until_it_is_registered(kind: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE memory_trajectory ADD COLUMN mood {kind}")

    assert set(text_columns()) - set(read_fates()) == {("memory_trajectory", "mood")}


def plant(table: str, column: str, kind: str) -> str:
    """Write a word of its own into a column of every row of a table; return the word."""
    word = f"canary{table}{column}".replace("_", "")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT DISTINCT jsonb_typeof(to_jsonb({column})) FROM {table}")  # noqa: S608 - our own names
        is_object = kind == "jsonb" and cursor.fetchall() == [("object",)]
        otherwise = "jsonb_build_object('said', %(word)s)" if is_object else "jsonb_build_array(%(word)s)"
        value = _SHAPES.get(f"{table}.{column}") or _VALUES.get(kind, otherwise)
        cursor.execute(f"UPDATE {table} SET {column} = {value.replace('%(word)s', '%(word)s::text')}", {"word": word})  # noqa: S608
    return word


def make_rows(project: Project) -> None:
    """Put a row into every table, all of them about one run."""
    user = get_user_model().objects.create_user("somebody")
    fill(project, user_id=user.pk)
    shared, own = Job.objects.get(), Job.objects.get()
    own.pk, own.subject = uuid7(), "another"
    own.save(force_insert=True)
    ConsolidationRun.objects.filter(pk=shared.pk).update(job_ptr=own)
    WebhookDelivery.objects.filter(pk=shared.pk).update(job_ptr=own)
    Suggestion.objects.update(run=own.pk)
    LogEntry.objects.create(
        user=user,
        content_type=ContentType.objects.get_for_model(Heuristic),
        object_id=str(Heuristic.objects.get().pk),
        action_flag=CHANGE,
    )


def test_erasure_does_what_the_register_says() -> None:
    project = make_project()
    make_rows(project)
    planted: dict[str, tuple[str, str]] = {}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_LINKS)
        for place, kind in text_columns().items():
            if read_fates()[place] != Fate.NO_TEXT and place != ("memory_project", "name"):
                planted[plant(*place, kind)] = place
        cursor.execute("SET LOCAL session_replication_role = origin")
    before = {word for word in planted if word in every_row()}

    erase_trajectory(Trajectory.objects.get(), by=Actor(label="user:ops"))

    left = {planted[word] for word in planted if word in every_row()}
    assert len(before) > 50
    assert {place for place in left if read_fates()[place] != Fate.KEPT} == set()


def test_tables_that_are_vacuumed_are_those_of_the_register() -> None:
    assert {"memory_trajectory", "memory_evidence", "reflection_modelcall"} <= {*find_tables_of_runs()}
    assert "memory_auditentry" not in find_tables_of_runs()
