"""Where the rows of agents may differ from the audit chain; runtime/sql/audit.sql writes the entries."""

_CALLS = """
WITH decided AS (
    SELECT id, project_id, status, memory_review_digest(a) AS sha256 FROM agents_approval a WHERE status <> 'pending'
)
SELECT d.project_id, d.id::text, a.number, 'the decision about a call was changed after it was made'
FROM decided d JOIN memory_auditentry a ON a.project_id = d.project_id AND a.kind LIKE 'call_%' AND a.subject_id = d.id
WHERE a.content::jsonb #>> '{said,row_sha256}' <> d.sha256
UNION ALL
SELECT d.project_id, d.id::text, NULL, 'the decision about a call has no entry in the chain'
FROM decided d
WHERE NOT EXISTS (SELECT FROM memory_auditentry a
                  WHERE a.project_id = d.project_id AND a.kind = 'call_' || d.status AND a.subject_id = d.id)
UNION ALL
SELECT a.project_id, a.subject_id::text, a.number, 'the decision about a call is missing, and no erasure removed it'
FROM memory_auditentry a
WHERE a.kind LIKE 'call_%'
    AND NOT EXISTS (SELECT FROM agents_approval d WHERE d.id = a.subject_id AND d.status <> 'pending')
    AND EXISTS (SELECT FROM memory_project p WHERE p.id = a.project_id)
    AND NOT EXISTS (SELECT FROM memory_auditentry e WHERE e.project_id = a.project_id AND e.kind = 'erasure'
                    AND e.subject_id::text = a.content::jsonb #>> '{said,run}')
"""
_TOOLS = """
SELECT r.project_id, r.id::text, a.number, 'the revision of a tool was changed after the decision about it'
FROM agents_toolrevision r JOIN memory_review v ON v.revision_id = r.id
JOIN memory_auditentry a ON a.project_id = r.project_id AND a.kind = 'review' AND a.subject_id = v.id
WHERE a.content::jsonb #>> '{said,revision_row_sha256}' <> memory_revision_digest(r)
UNION ALL
SELECT t.project_id, t.id::text, last.number, 'another revision of the tool is in force than the chain says'
FROM agents_tool t LEFT JOIN (
    SELECT DISTINCT ON (subject_id) subject_id, number, content::jsonb -> 'said' AS said FROM memory_auditentry
    WHERE kind = 'tool_in_force' ORDER BY subject_id, number DESC) last ON last.subject_id = t.id
WHERE t.current_id::text IS DISTINCT FROM last.said ->> 'current_id'
"""
_AGENTS = """
SELECT g.project_id, g.id::text, last.number, 'the agent differs from its last entry in the chain'
FROM agents_agent g LEFT JOIN agents_agentrevision r ON r.id = g.current_id LEFT JOIN (
    SELECT DISTINCT ON (subject_id) subject_id, number, content::jsonb -> 'said' AS said FROM memory_auditentry
    WHERE kind LIKE 'agent_%' ORDER BY subject_id, number DESC) last ON last.subject_id = g.id
WHERE (g.current_id::text, g.archived_at IS NULL, CASE WHEN r.id IS NOT NULL THEN memory_revision_digest(r) END)
    IS DISTINCT FROM
    (last.said ->> 'revision', last.said ->> 'archived_at' IS NULL, last.said ->> 'row_sha256')
"""
_CHANGES = """
SELECT c.project_id, c.id::text, last.number, 'the change is on another rung than the chain says'
FROM agents_change c LEFT JOIN (
    SELECT DISTINCT ON (subject_id) subject_id, number, content::jsonb -> 'said' AS said FROM memory_auditentry
    WHERE kind LIKE 'change_%' ORDER BY subject_id, number DESC) last ON last.subject_id = c.id
WHERE (c.rung, c.target_id::text) IS DISTINCT FROM (last.said ->> 'rung', last.said ->> 'target_id')
"""
COMPARISONS = (_CALLS, _TOOLS, _AGENTS, _CHANGES)
