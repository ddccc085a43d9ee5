"""Every column that can hold text says whether people write it, and an erasure does what it says (reliability C10)."""

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
from memory.stored_text import find_stored_text
from memory.trust.erasure import erase_trajectory
from reflection.consolidation.models import Suggestion
from reflection.jobs.models import Job
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
OURS = ("memory_", "reflection_", "agents_", "evaluation_")
# What ERL writes or an operator or API client names: codes, names, hashes, labels, figures. A new column that can hold
# text either has a name like these, is one of the next list, or has a field that says whose text it is.
_NO_TEXT = """
agent arm call_id cause client compaction compared conclusion configuration controls cut_policy decision degraded
desk_url details disabled_reason effect embedding_model_id ended event_kind events failure fallback family
fingerprint finish_reason guardrails harm how id judge key keys kind kinds last_error lease_owner lessons manifest
measured method metric mistake_card_policy mode model model_settings operation outcome outcome_source outcomes
pattern polarity policy prefix promotes provider record_sizes reflector request_id requested_mode retrieval
review_basis reviewer risk_flags role route rule rung runtime salt sealed scope scopes scores sets skip_reason slug
stages_done state status step stop_reason style subject suite suites tool tool_call_id traceparent unit unit_rule
url usefulness_basis values verdict version versions
"""
_NO_TEXT_ENDS = ("_by", "sha256", "_version", "_salt", "_code")
_NO_TEXT_HERE = """
agents_agentrevision.limits agents_change.source agents_evaluationrow.name agents_run.task_id agents_tool.name
evaluation_experiment.steps evaluation_look.reason memory_auditentry.content memory_polarityquota.task_id
memory_embeddingmodel.floors memory_erasure.receipt memory_project.name memory_quarantineorder.source
reflection_job.payload reflection_job.result
reflection_workerheartbeat.name
"""
# What links the rows that `fill` left apart, all of them to the one run.
_LINKS = """
UPDATE memory_trajectory SET retrieval_id = (SELECT id FROM memory_retrieval), created_at = now(),
    system_prompt_id = (SELECT id FROM memory_systemprompt);
UPDATE memory_retrieval SET created_at = now(), heuristic_ids = ARRAY[(SELECT id FROM memory_heuristic)],
    injected_ids = ARRAY[(SELECT id FROM memory_heuristic)];
UPDATE memory_idempotencyrecord SET resource_id = (SELECT id FROM memory_retrieval);
UPDATE memory_blockrevision SET run_id = (SELECT id FROM memory_trajectory);
UPDATE memory_passage SET run_id = (SELECT id FROM memory_trajectory);
UPDATE memory_usageverdict SET trajectory_id = (SELECT id FROM memory_trajectory);
UPDATE memory_heuristic SET current_revision_id = (SELECT id FROM memory_heuristicrevision);
UPDATE memory_heuristicrevision SET lineage = ARRAY[id];
UPDATE memory_comment SET object_id = (SELECT id FROM memory_heuristic);
UPDATE memory_wordorigin SET trajectory_id = (SELECT id FROM memory_trajectory),
    wording_id = (SELECT id FROM memory_heuristicrevision);
UPDATE reflection_job SET kind = 'consolidation', payload = jsonb_build_object('until', now() + interval '1 day')
    WHERE trajectory_id IS NULL;
ALTER TABLE agents_toolrevision DROP CONSTRAINT agents_toolrevision_fits_runtime;
UPDATE agents_compaction SET summarised_through = 1, summary = 'x';
UPDATE agents_message SET run_id = (SELECT id FROM agents_run);
UPDATE agents_run SET status = 'failed', stop_reason = 'error', finished_at = now(),
    trajectory_id = (SELECT id FROM memory_trajectory);
UPDATE reflection_modelcall SET job_id = (SELECT id FROM reflection_job WHERE trajectory_id IS NOT NULL);
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


def stored_text() -> dict[tuple[str, str], str]:
    """Return the columns that say that people's text is in them, each with the reason why it stays."""
    return {(table, column): kept for table, column, kept in find_stored_text()}


def unmarked() -> set[tuple[str, str]]:
    """Return our columns that can hold text, and say neither by their field nor by their name whose it is."""
    names = {*_NO_TEXT.split(), *_NO_TEXT_HERE.split()}
    return {
        (table, column)
        for table, column in set(text_columns()) - set(stored_text())
        if table.startswith(OURS)
        and not column.endswith(_NO_TEXT_ENDS)
        and names.isdisjoint((column, f"{table}.{column}"))
    }


def test_every_column_that_can_hold_text_says_whose_it_is() -> None:
    assert unmarked() == set()
    assert set(stored_text()) <= set(text_columns())


@pytest.mark.parametrize("kind", ["text", "varchar(20)", "jsonb", "bytea", "text[]"])
def test_new_column_is_missed_until_it_says_whose_text_it_holds(kind: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE memory_trajectory ADD COLUMN mood {kind}")

    assert unmarked() == {("memory_trajectory", "mood")}


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
    own = Job.objects.get()
    Job.objects.update(trajectory=Trajectory.objects.get())
    own.pk, own.subject = uuid7(), "another"
    own.save(force_insert=True)
    Suggestion.objects.update(run=own.pk)
    LogEntry.objects.create(
        user=user,
        content_type=ContentType.objects.get_for_model(Heuristic),
        object_id=str(Heuristic.objects.get().pk),
        action_flag=CHANGE,
    )


def test_erasure_does_what_the_columns_say() -> None:
    project = make_project()
    make_rows(project)
    planted: dict[str, tuple[str, str]] = {}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_LINKS)
        for place, kind in text_columns().items():
            if place in stored_text():
                planted[plant(*place, kind)] = place
        cursor.execute("SET LOCAL session_replication_role = origin")
    before = {word for word in planted if word in every_row()}

    erase_trajectory(Trajectory.objects.get(), by=Actor(label="user:ops"))

    left = {planted[word] for word in planted if word in every_row()}
    assert len(before) > 50
    assert {place for place in left if not stored_text()[place]} == set()


def test_tables_that_are_vacuumed_are_those_with_text_of_people() -> None:
    tables = {table for table, _ in stored_text()}

    assert {"memory_trajectory", "memory_evidence", "reflection_modelcall"} <= tables
    assert "memory_auditentry" not in tables
