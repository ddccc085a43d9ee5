"""What must hold of the rows, asked after every step of a stateful test, and what is remembered beside them."""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from hypothesis.stateful import RuleBasedStateMachine, invariant

from memory.api.authentication import verified_keys
from memory.errors import MemoryAppError
from memory.projects.models import Project
from memory.trust.audit import verify_audit
from memory.trust.invariants import all_invariants
from reflection.errors import ReflectionError
from tests.factories import make_api_key, make_project

Rows = list[tuple[str, UUID]]  # what there is to say of each, and its id

made: Counter[str] = Counter()  # turns of each kind, besides runs and checks
effective: Counter[str] = Counter()  # those that changed something, or were given lessons

VACUUM_EVERY = 25  # runs

# What is there, and what breaks a rule: asked after every step, so one statement, which the connection plans once.
# `find_violations` asks one rule after another, for the sake of large tables, and takes thirty times as long.
_THERE = """
SELECT 'served', content_sha256::text, heuristic_id FROM memory_heuristicrevision WHERE served
UNION ALL SELECT 'run', '', id FROM memory_trajectory
UNION ALL SELECT 'lesson', status::text, id FROM memory_heuristic
UNION ALL SELECT 'job', status::text, id FROM reflection_job
"""


def plan_look() -> None:
    """Make the function that looks at all rows, for as long as this transaction lasts."""
    rules = "\n".join(
        f"UNION ALL SELECT 'broken', '{each.name}: ' || broken, NULL FROM ({each.broken_by}) AS rule (broken)"  # noqa: S608
        for each in all_invariants()
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION pg_temp.look() RETURNS TABLE (row_kind text, row_says text, row_id uuid) "
            f"LANGUAGE plpgsql AS $$BEGIN RETURN QUERY {_THERE} {rules} ORDER BY 3; END$$"
        )


def vacuum() -> None:
    """Remove the rows that were taken back: autovacuum hears of them only when the test's own transaction ends."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("VACUUM (SKIP_DATABASE_STATS)")
    finally:
        other.close()


class Watched(RuleBasedStateMachine):
    """A project of which everything is known. It lives in one transaction that is taken back in the end.

    What was acknowledged, approved, taken out of service and erased is remembered and compared with the rows.
    """

    def __init__(self) -> None:
        super().__init__()
        made["runs"] += 1
        self.block = transaction.atomic()
        self.block._from_testcase = True  # requests may open their durable transactions in it
        self.block.__enter__()
        self.project: Project = make_project()
        self.key = make_api_key(project=self.project)
        self.runs: set[str] = set()
        self.approved: set[str] = set()
        self.withdrawn: set[UUID] = set()
        self.lessons: Rows = []  # as they are now, with their status
        self.jobs: Rows = []

    def teardown(self) -> None:
        has_failed = sys.exc_info()[0] is not None
        faults = [] if has_failed else verify_audit().faults
        transaction.set_rollback(True)
        self.block.__exit__(None, None, None)
        verified_keys.clear()
        if made["runs"] % VACUUM_EVERY == 0:
            vacuum()
        assert not faults, faults

    @invariant()
    def rules_hold(self) -> None:
        made["checks"] += 1
        there = self.look()
        assert not there["broken"], there["broken"]
        for content_sha256, heuristic_id in there["served"]:
            assert content_sha256 in self.approved, "somebody approved what is served"
            assert heuristic_id not in self.withdrawn, "only an approval brings back what was quarantined"
        runs = {str(id) for _, id in there["run"]}
        assert runs == self.runs, "what was acknowledged is there, what was erased is not, and nothing else is"

    def look(self) -> dict[str, Rows]:
        """Let the database check what it does at a commit; return the rows there are and those that break a rule."""
        there: dict[str, Rows] = defaultdict(list)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
            cursor.execute("SELECT * FROM pg_temp.look()")
            for kind, says, id in cursor.fetchall():
                there[kind].append((says, id))
        self.lessons, self.jobs = there["lesson"], there["job"]
        return there

    def attempt(self, kind: str, act: Callable[[], Any]) -> Any:
        """Do what may be refused, and count it."""
        try:
            with transaction.atomic():
                done = act()
        except (MemoryAppError, ReflectionError):
            done = None
        self.count(kind, done is not None)
        return done

    def count(self, kind: str, had_effect: bool) -> None:
        made[kind] += 1
        effective[kind] += had_effect


def has(rows: Rows, *statuses: str) -> bool:
    return any(status in statuses for status, _ in rows)


def choose(rows: Rows, which: int, fit: tuple[str, ...] = ()) -> UUID:
    """Return one of the rows, and one that fits where there is any."""
    ids = [id for status, id in rows if status in fit] or [id for _, id in rows]
    return ids[which % len(ids)]
