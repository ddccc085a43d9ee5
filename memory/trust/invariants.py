"""Invariants of the database that must hold whatever crashed (reliability B14).

Each is a statement that finds the rows that violate it. Other apps add theirs, and `manage.py verify_audit` checks
them all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db import connection, transaction

SHOWN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Invariant:
    """A rule and the statement that finds its violations, one per row, identified by the first column."""

    name: str
    says: str
    broken_by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A broken rule, the number of violations, and the first of them."""

    invariant: Invariant
    count: int
    rows: tuple[str, ...]


_PAIRS = (
    ("memory_heuristicrevision", "heuristic_id", "memory_heuristic"),
    ("memory_evidence", "heuristic_id", "memory_heuristic"),
    ("memory_evidence", "trajectory_id", "memory_trajectory"),
    ("memory_evidence", "merged_from_id", "memory_heuristic"),
    ("memory_heuristicembedding", "revision_id", "memory_heuristicrevision"),
    ("memory_usageverdict", "heuristic_id", "memory_heuristic"),
    ("memory_usageverdict", "trajectory_id", "memory_trajectory"),
    ("memory_blockrevision", "block_id", "memory_block"),
    ("memory_passageembedding", "passage_id", "memory_passage"),
    ("memory_trajectory", "retrieval_id", "memory_retrieval"),
    ("memory_trajectory", "api_key_id", "memory_apikey"),
    ("memory_trajectory", "system_prompt_id", "memory_systemprompt"),
    ("memory_retrieval", "api_key_id", "memory_apikey"),
)


def same_project(child: str, column: str, parent: str) -> Invariant:
    """Return the rule that a row and the row it refers to belong to one project."""
    return Invariant(
        name=f"{child}.{column}_same_project",
        says="A row and the row it refers to belong to one project.",
        broken_by=f"SELECT c.id FROM {child} c JOIN {parent} p ON p.id = c.{column} "  # noqa: S608 - names from this file
        "WHERE c.project_id <> p.project_id",
    )


_INVARIANTS: list[Invariant] = [
    Invariant(
        name="served_is_approved",
        says="A served wording has the hash that was approved.",
        broken_by="SELECT id FROM memory_heuristicrevision WHERE (served OR live) AND "
        "(approved_sha256 <> content_sha256 OR approved_by = '' OR approved_at IS NULL)",
    ),
    Invariant(
        name="served_has_a_review",
        says="A served wording was approved in a review of exactly this text.",
        broken_by="SELECT v.id FROM memory_heuristicrevision v WHERE v.served AND NOT EXISTS (SELECT FROM "
        "memory_review r WHERE r.revision_id = v.id AND r.decision = 'approve' "
        "AND r.content_sha256 = v.content_sha256)",
    ),
    Invariant(
        name="nothing_covered_is_served",
        says="Nothing that a quarantine order covers is served until the order is lifted.",
        broken_by="SELECT v.id FROM memory_heuristicrevision v WHERE (v.served OR v.live) AND EXISTS "
        "(SELECT FROM memory_quarantineorder o WHERE o.project_id = v.project_id) "
        "AND memory_covering_order(v.project_id, v.lineage) IS NOT NULL",
    ),
    Invariant(
        name="content_is_what_was_hashed",
        says="The hash of a wording matches its text.",
        broken_by="SELECT r.id FROM memory_heuristicrevision r WHERE r.content_sha256 <> memory_wording_sha256(r)",
    ),
    Invariant(
        name="vectors_follow_service",
        says="A vector is searchable exactly while its wording is served; that of a task, if it was approved too.",
        broken_by="SELECT e.id FROM memory_heuristicembedding e JOIN memory_heuristicrevision v ON v.id = "
        "e.revision_id WHERE e.served <> (v.live AND (e.kind <> 'source_task' OR "
        "memory_task_is_approved(e.revision_id, e.trajectory_id, e.text_sha256)))",
    ),
    Invariant(
        name="status_agrees_with_service",
        says="An approved lesson serves a wording; a rejected, retired, quarantined or superseded one serves none.",
        broken_by="SELECT h.id FROM memory_heuristic h LEFT JOIN memory_heuristicrevision v ON v.heuristic_id = h.id "
        "AND v.served WHERE (h.status = 'approved' AND v.id IS NULL) OR "
        "(h.status IN ('rejected', 'retired', 'quarantined', 'superseded') AND v.id IS NOT NULL)",
    ),
    Invariant(
        name="heuristic_has_its_revision",
        says="Every lesson has a current wording of its own.",
        broken_by="SELECT h.id FROM memory_heuristic h LEFT JOIN memory_heuristicrevision v "
        "ON v.id = h.current_revision_id WHERE v.heuristic_id IS DISTINCT FROM h.id",
    ),
    Invariant(
        name="support_is_counted",
        says="Support is the number of distinct runs in the evidence, and approved support of those approved with it.",
        broken_by="SELECT h.id FROM memory_heuristic h LEFT JOIN memory_evidence e ON e.heuristic_id = h.id "
        "WHERE h.kind = 'lesson' AND h.status <> 'superseded' GROUP BY h.id HAVING "
        "h.support <> count(DISTINCT e.trajectory_id) OR "
        "h.approved_support <> count(DISTINCT e.trajectory_id) FILTER (WHERE e.approved_at IS NOT NULL)",
    ),
    Invariant(
        name="acknowledged_run_exists",
        says="A run whose recording was acknowledged exists, unless it was erased.",
        broken_by="SELECT i.id FROM memory_idempotencyrecord i WHERE i.route LIKE '%trajectories' "
        "AND i.method = 'POST' AND i.status_code = 201 AND i.erased_at IS NULL AND NOT EXISTS "
        "(SELECT FROM memory_trajectory t WHERE t.id = i.resource_id)",
    ),
    Invariant(
        name="review_is_of_a_revision",
        says="Every review is of a revision of its own project.",
        broken_by="SELECT r.id FROM memory_review r WHERE NOT EXISTS (SELECT FROM ("
        "SELECT id, project_id FROM memory_heuristicrevision UNION ALL SELECT id, project_id FROM memory_blockrevision "
        "UNION ALL SELECT id, project_id FROM agents_toolrevision UNION ALL SELECT id, project_id FROM "
        "agents_agentrevision) v WHERE v.id = r.revision_id AND v.project_id = r.project_id)",
    ),
    Invariant(
        name="review_is_in_the_audit",
        says="Every review has an entry in the audit chain.",
        broken_by="SELECT r.id FROM memory_review r WHERE NOT EXISTS (SELECT FROM memory_auditentry a "
        "WHERE a.kind = 'review' AND a.subject_id = r.id AND a.project_id = r.project_id)",
    ),
    Invariant(
        name="block_in_effect_is_allowed",
        says="What a block says fits its limit, was applied at once where its policy allows that, or was approved in a "
        "review of exactly this text.",
        broken_by="SELECT b.id FROM memory_block b LEFT JOIN memory_blockrevision r ON r.id = b.current_id WHERE "
        "r.block_id IS DISTINCT FROM b.id OR char_length(r.value) > b.char_limit OR NOT (r.status = 'approved' AND "
        "memory_is_approved(r.id, r.content_sha256) OR r.status = 'applied' AND (b.policy = 'direct' OR r.operation IN "
        "('create', 'withdraw')))",
    ),
    Invariant(
        name="erased_run_is_gone",
        says="Erased runs are gone. After a restore, run `manage.py erase --replay`.",
        broken_by="SELECT t.id FROM memory_trajectory t JOIN memory_erasure e ON e.trajectory_id = t.id",
    ),
    Invariant(
        name="indexes_are_valid",
        says="All indexes are valid. Drop an invalid one and create it again.",
        broken_by="SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid",
    ),
    *(same_project(*pair) for pair in _PAIRS),
]


def add_invariants(more: Iterable[Invariant]) -> None:
    """Add the rules of another app."""
    _INVARIANTS.extend(invariant for invariant in more if invariant not in _INVARIANTS)


def all_invariants() -> list[Invariant]:
    """Return all rules."""
    return list(_INVARIANTS)


def find_violations() -> Iterator[Violation]:
    """Check all rules and yield those that are broken."""
    for invariant in all_invariants():
        with transaction.atomic(), connection.cursor() as cursor:
            # A check reads whole tables, which takes longer than a request may.
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute(invariant.broken_by)
            rows = [str(row[0]) for row in cursor.fetchall()]
        if rows:
            yield Violation(invariant=invariant, count=len(rows), rows=tuple(rows[:SHOWN]))
