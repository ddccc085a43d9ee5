"""A statement lies in one shard if it names the project of the rows it touches."""

import pytest

from tests.cluster.statements import crosses_shards, write_report

pytestmark = pytest.mark.nightly


BY_PROJECT = "SELECT id FROM memory_trajectory WHERE project_id = $1"
BY_KEY = 'SELECT "memory_trajectory"."task" FROM "memory_trajectory" WHERE "memory_trajectory"."id" = $1'
LISTED = 'SELECT "memory_trajectory"."project_id" FROM "memory_trajectory" WHERE "memory_trajectory"."id" = $1'
ADDED = 'INSERT INTO "memory_trajectory" ("id", "project_id", "task") VALUES ($1, $2, $3)'
NO_TABLE = "SELECT set_config($1, $2, true)"
SHARED = "SELECT id FROM memory_embeddingmodel WHERE active"


@pytest.mark.parametrize(
    ("statement", "crosses"),
    [(BY_PROJECT, False), (ADDED, False), (BY_KEY, True), (LISTED, True), (NO_TABLE, False), (SHARED, False)],
)
def test_statement_crosses_shards_without_a_project(statement: str, crosses: bool) -> None:
    assert crosses_shards(statement, shared=frozenset({"memory_embeddingmodel"})) is crosses


def test_report_names_the_table_of_each_crossing_statement() -> None:
    report = write_report([(BY_PROJECT, 3), (BY_KEY, 5), (NO_TABLE, 1)], shared=frozenset())

    assert report.startswith("1 of 2 statements name no project.")
    assert "memory_trajectory · 5 calls" in report
