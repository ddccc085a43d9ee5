"""The views that retrieval reads, and a role that can read nothing else (reliability C3)."""

from django.db import migrations

FORWARD = r"""
-- The planner folds these views into the statements that use them: they cost nothing and cannot be forgotten.
CREATE VIEW servable_heuristic AS
    SELECT r.id, r.project_id, r.heuristic_id, r.number, r.content_sha256, r.trigger, r.guideline, r.avoid, r.not_when,
           r.rationale, r.polarity, r.scope, r.task_id, r.tags, r.source_task, h.support
    FROM memory_heuristicrevision r JOIN memory_heuristic h ON h.id = r.heuristic_id
    WHERE r.served AND r.approved_sha256 = r.content_sha256;

CREATE VIEW servable_text AS
    SELECT project_id, heuristic_id, revision_id, trajectory_id, embedding_model_id, kind, vector, terms, term_ids
    FROM memory_heuristicembedding WHERE served;

-- Of the runs that lessons come from: whose they are and how the task began; no steps.
CREATE VIEW servable_source AS
    SELECT id AS trajectory_id, agent, left(task, 300) AS task FROM memory_trajectory;
CREATE VIEW servable_evidence AS
    SELECT heuristic_id, trajectory_id FROM memory_evidence;

-- A role belongs to the whole server. Where this user may not make one, an operator can (docs/reliability.md).
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        CREATE ROLE erl_serving NOLOGIN;
    END IF;
    EXECUTE format('GRANT erl_serving TO %I', current_user);
EXCEPTION
    WHEN duplicate_object OR unique_violation OR invalid_grant_operation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'This user may not create the role erl_serving; retrieval runs without it.';
END $$;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        GRANT SELECT ON servable_heuristic, servable_text, servable_source, servable_evidence, memory_embeddingmodel,
            memory_searchstatistics, memory_termcount TO erl_serving;
    END IF;
END $$;
"""

REVERSE = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        REVOKE SELECT ON memory_embeddingmodel, memory_searchstatistics, memory_termcount FROM erl_serving;
    END IF;
END $$;
DROP VIEW servable_evidence, servable_source, servable_text, servable_heuristic;
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0008_audit_chain")]
    operations = [migrations.RunSQL(FORWARD, REVERSE)]
