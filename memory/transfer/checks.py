"""What has to be true of the rows of an import together, and how to name the rows where it is not."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import connection

from memory.projects.models import Project
from memory.releases.manifest import hash_manifest
from memory.releases.models import Release
from memory.transfer.tables import TABLES, Column, find_columns

Found = tuple[str, str, str]  # the table, the id of a row, and what is wrong with it
SHOWN = 20

_COVERED = """
SELECT 'memory_heuristicrevision', v.id::text, 'agents would be given words that a quarantine order covers'
FROM memory_heuristicrevision v WHERE v.project_id = %s AND (v.served OR v.live)
    AND EXISTS (SELECT FROM memory_quarantineorder o WHERE o.project_id = v.project_id)
    AND memory_covering_order(v.project_id, v.lineage) IS NOT NULL
"""
_UNREVIEWED = """
SELECT 'memory_heuristicrevision', v.id::text, 'agents would be given it, but no review approved this text'
FROM memory_heuristicrevision v WHERE v.project_id = %s AND (v.served OR v.live) AND NOT EXISTS (
    SELECT FROM memory_review r WHERE r.revision_id = v.id AND r.decision = 'approve'
    AND r.content_sha256 = v.content_sha256)
"""
_ERASED = """
SELECT 'memory_erasure', e.id::text, 'this run was erased, but it is there'
FROM memory_erasure e WHERE e.project_id = %s AND EXISTS (SELECT FROM memory_trajectory t WHERE t.id = e.trajectory_id)
"""
_STATEMENTS = {"memory_heuristicrevision": (_COVERED, _UNREVIEWED), "memory_erasure": (_ERASED,)}
_checks: list[Callable[[Project], Iterable[Found]]] = []


def add_check(find: Callable[[Project], Iterable[Found]]) -> None:
    """Check rows of another app, too: those whose content does not have the hash that was approved."""
    if find not in _checks:
        _checks.append(find)


def check_rows(project: Project, tables: set[str]) -> Iterator[Found]:
    """Yield what is wrong with rows of a project after an import of these tables."""
    for name in tables:
        yield from _find_dangling(project, name)
    yield from _find_foreign(project, tables)
    for name, statements in _STATEMENTS.items():
        for statement in statements if name in tables else ():
            yield from _fetch(statement, [project.pk])
    if "memory_release" in tables:
        for release in Release.objects.filter(project=project).iterator(chunk_size=50):
            if hash_manifest(release.manifest) != release.sha256:
                yield "memory_release", str(release.pk), "the manifest does not have the hash that names the release"
    for find in _checks:
        yield from (found for found in find(project) if found[0] in tables)


def _find_dangling(project: Project, name: str) -> Iterator[Found]:
    """Yield rows that refer to one that is not in the project."""
    for column in find_columns(name):
        # A counted key was looked up by what names its row: where there was none, it is empty.
        if not column.refers_to or column.names:
            continue
        yield from _fetch(
            f"SELECT '{name}', {_name_row(name, column)}, format('%%s names %%s, which is not in the project', "  # noqa: S608
            f"'{column.name}', t.{column.name}) FROM {name} t WHERE t.project_id = %s AND t.{column.name} IS NOT NULL "
            f"AND NOT EXISTS (SELECT FROM {column.refers_to} r WHERE r.id = t.{column.name} "
            f"AND r.project_id = t.project_id) LIMIT {SHOWN}",
            [project.pk],
        )


def _find_foreign(project: Project, tables: set[str]) -> Iterator[Found]:
    """Yield rows that name, other than by a foreign key, a row of another project."""
    owned = " UNION ALL ".join(
        f"SELECT id, project_id FROM {name}"  # noqa: S608
        for name in TABLES
        if any(column.name == "id" and column.type == "uuid" for column in find_columns(name))
    )
    for name in sorted(tables):
        for column in find_columns(name):
            if column.refers_to or column.name == "id" or column.type not in ("uuid", "uuid[]"):
                continue
            ids = f"unnest(t.{column.name})" if column.type == "uuid[]" else f"t.{column.name}"
            # One by one, by the keys: rows that were written a moment ago have no statistics to plan a join by.
            yield from _fetch(
                f"SELECT '{name}', t.id, format('%%s names %%s, which is of another project', '{column.name}', o.id) "  # noqa: S608
                f"FROM (SELECT named, min(id::text) AS id FROM (SELECT id, {ids} AS named FROM {name} t "
                f"WHERE t.project_id = %s) t GROUP BY named) t CROSS JOIN LATERAL (SELECT o.id FROM ({owned}) o "
                f"WHERE o.id = t.named AND o.project_id <> %s LIMIT 1) o LIMIT {SHOWN}",
                [project.pk, project.pk],
            )


def _name_row(name: str, reference: Column) -> str:
    """Return what a row is found by in its file: its id or, where that is counted, what it refers to."""
    has_id = any(column.name == "id" for column in find_columns(name))
    return "t.id::text" if has_id else f"t.{reference.name}::text"


def _fetch(statement: str, parameters: list[Any]) -> Iterator[Found]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        yield from cursor.fetchall()
