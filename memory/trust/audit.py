"""Verify that the audit chain is complete and agrees with the rows it describes (reliability C9)."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from memory.trust.models import AuditEntry

GENESIS = "0" * 64

_REVIEWS = """
SELECT r.project_id, r.id::text, a.number, 'the review was changed after it was made'
FROM memory_review r
JOIN (
    SELECT DISTINCT ON (project_id, subject_id) project_id, subject_id, number, content FROM memory_auditentry
    WHERE kind IN ('review', 'review_erased')
    ORDER BY project_id, subject_id, number DESC) a ON a.project_id = r.project_id AND a.subject_id = r.id
WHERE a.content::jsonb #>> '{said,row_sha256}' <> memory_review_digest(r)
UNION ALL
SELECT r.project_id, r.id::text, NULL, 'the review has no entry in the chain'
FROM memory_review r
WHERE NOT EXISTS (SELECT FROM memory_auditentry a
                  WHERE a.project_id = r.project_id AND a.kind = 'review' AND a.subject_id = r.id)
UNION ALL
SELECT a.project_id, a.subject_id::text, a.number, 'the review is missing, and no erasure removed it'
FROM memory_auditentry a
WHERE a.kind = 'review' AND NOT EXISTS (SELECT FROM memory_review r WHERE r.id = a.subject_id)
    AND EXISTS (SELECT FROM memory_project p WHERE p.id = a.project_id)
    AND NOT EXISTS (SELECT FROM memory_auditentry e WHERE e.project_id = a.project_id AND e.kind = 'erasure'
                    AND e.content::jsonb #> '{said,heuristic_ids}' ? (a.content::jsonb #>> '{said,subject}'))
"""
_SERVING = """
SELECT v.project_id, v.id::text, last.number,
       CASE WHEN v.served THEN 'it is served, but the chain says it was withdrawn'
            ELSE 'it is not served, but the chain says it is' END
FROM memory_heuristicrevision v
JOIN (
    SELECT DISTINCT ON (subject_id) subject_id, number, kind FROM memory_auditentry
    WHERE kind IN ('served', 'withdrawn')
    ORDER BY subject_id, number DESC) last ON last.subject_id = v.id
WHERE v.served <> (last.kind = 'served')
"""
_KEYS = """
SELECT k.project_id, k.id::text, last.number, 'the key differs from its last entry in the chain'
FROM memory_apikey k JOIN (
    SELECT DISTINCT ON (subject_id) subject_id, number, content::jsonb -> 'said' AS said FROM memory_auditentry
    WHERE kind LIKE 'key_%' ORDER BY subject_id, number DESC) last ON last.subject_id = k.id
WHERE (k.prefix, k.client, to_jsonb(k.scopes), encode(sha256(convert_to(k.secret_sha256, 'UTF8')), 'hex'),
       k.revoked_at IS NULL)
    IS DISTINCT FROM (last.said ->> 'prefix', last.said ->> 'client', last.said -> 'scopes', last.said ->> 'secret',
       last.said ->> 'revoked_at' IS NULL)
    OR (last.said ? 'owner' AND last.said ->> 'owner' IS DISTINCT FROM k.created_by_id::text)
"""
# A project without an entry has had the defaults all along.
_SETTINGS = """
SELECT p.id, p.id::text, last.number, 'who decides in the project differs from its last entry in the chain'
FROM memory_project p LEFT JOIN (
    SELECT DISTINCT ON (subject_id) subject_id, number, content::jsonb -> 'said' AS said FROM memory_auditentry
    WHERE kind = 'settings' ORDER BY subject_id, number DESC) last ON last.subject_id = p.id
WHERE (p.four_eyes, p.mistake_card_policy) IS DISTINCT FROM (
    coalesce((last.said ->> 'four_eyes')::boolean, false), coalesce(last.said ->> 'mistake_card_policy', 'people'))
"""


_comparisons = [_REVIEWS, _SERVING, _KEYS, _SETTINGS]


def add_comparisons(*statements: str) -> None:
    """Compare the rows of another app with the chain too.

    Each statement returns the faults: the project, the row's id, the number of the entry or NULL, and what is wrong.
    """
    _comparisons.extend(statement for statement in statements if statement not in _comparisons)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditFault:
    """One place where the chain, or a row it describes, was changed."""

    project_id: UUID
    number: int | None
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The newest entry of a project. Stored elsewhere, it later proves that the chain was not cut off."""

    project_id: UUID
    number: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.project_id}:{self.number}:{self.sha256}"


@dataclass(kw_only=True, slots=True)
class AuditReport:
    """The number of entries read, the end of each chain, and all faults."""

    entries: int = 0
    heads: list[Head] = field(default_factory=list)
    faults: list[AuditFault] = field(default_factory=list)


@transaction.atomic
def verify_audit(*, heads: list[Head] | None = None) -> AuditReport:
    """Read every chain from the start and compare it with the rows.

    Args:
        heads: ends recorded earlier; each must still be in its chain.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")  # a long chain takes time
    report = AuditReport()
    kept = {(head.project_id, head.number): head for head in heads or []}
    before: AuditEntry | None = None
    for entry in AuditEntry.objects.order_by("project_id", "number").iterator(chunk_size=2000):
        # Each project has a chain of its own, which begins at GENESIS again.
        if before is not None and before.project_id != entry.project_id:
            _add_head(report, before)
            before = None
        report.entries += 1
        report.faults += [
            AuditFault(project_id=entry.project_id, number=entry.number, message=message)
            for message in _check_link(entry, before)
        ]
        # What is left in `kept` afterwards was cut off the end.
        recorded = kept.pop((entry.project_id, entry.number), None)
        if recorded is not None and recorded.sha256 != entry.sha256:
            message = "the chain was rewritten: this entry had another hash when its end was recorded"
            report.faults.append(AuditFault(project_id=entry.project_id, number=entry.number, message=message))
        before = entry
    if before is not None:
        _add_head(report, before)
    report.faults += [
        AuditFault(project_id=head.project_id, number=head.number, message="the end of the chain is missing")
        for head in kept.values()
    ]
    for statement in _comparisons:
        report.faults += _compare(statement)
    return report


def _check_link(entry: AuditEntry, before: AuditEntry | None) -> Iterator[str]:
    number = before.number + 1 if before else 1
    previous = before.sha256 if before else GENESIS
    if entry.number != number:
        yield f"entry {number} is missing"
    elif entry.previous_sha256 != previous:
        yield "it does not follow from the entry before it"
    if hashlib.sha256(f"{entry.previous_sha256}\n{entry.content}".encode()).hexdigest() != entry.sha256:
        yield "its content does not match its hash"
        return
    # Only now: content that fails its hash need not be JSON.
    content: dict[str, Any] = json.loads(entry.content)
    subject = str(entry.subject_id) if entry.subject_id else None
    # Queries read the columns, and the hash covers the content alone.
    described = (content["project"], content["number"], content["kind"], content["subject"])
    if described != (str(entry.project_id), entry.number, entry.kind, subject):
        yield "its columns do not match its content"


def _add_head(report: AuditReport, entry: AuditEntry) -> None:
    report.heads.append(Head(project_id=entry.project_id, number=entry.number, sha256=entry.sha256))


def _compare(statement: str) -> list[AuditFault]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [
            AuditFault(project_id=project_id, number=number, message=f"{subject}: {message}")
            for project_id, subject, number, message in cursor.fetchall()
        ]
