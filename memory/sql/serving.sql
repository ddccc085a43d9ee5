-- The views that retrieval reads, and what the two roles may do. Needs roles.sql and projects.sql.

-- A new database runs this file before the migrations that add some of the columns it names.
SET LOCAL check_function_bodies = off;

-- The moment that answers speak of: now, or in a replay the one that the question names. PostgreSQL puts the bodies of
-- these functions into the statements that use them.
CREATE OR REPLACE FUNCTION memory_as_of() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(current_setting('erl.as_of', true), '')::timestamptz, now())
$$;
-- Whether a wording holds then: its time is not over, and in a replay it was approved by then.
CREATE OR REPLACE FUNCTION memory_is_valid(r memory_heuristicrevision) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (r.valid_until IS NULL OR r.valid_until > memory_as_of())
        AND (r.expires_after IS NULL OR r.approved_at + r.expires_after > memory_as_of())
        AND (coalesce(current_setting('erl.as_of', true), '') = '' OR r.approved_at <= memory_as_of())
$$;
CREATE OR REPLACE FUNCTION memory_has_end(r memory_heuristicrevision) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT r.valid_until IS NOT NULL OR r.expires_after IS NOT NULL $$;
CREATE OR REPLACE FUNCTION memory_ends_at(r memory_heuristicrevision) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT least(r.valid_until, r.approved_at + r.expires_after) $$;

-- Everything an agent may be given (reliability C3). The planner folds these views into the statements that use them:
-- they cost nothing, and no statement can forget the condition.
CREATE OR REPLACE VIEW servable_heuristic AS
    SELECT r.id, r.project_id, r.heuristic_id, r.number, r.content_sha256, r.trigger, r.guideline, r.avoid, r.not_when,
           r.rationale, r.polarity, r.scope, r.task_id, r.tags, r.source_task, h.approved_support AS support, h.usefulness,
           h.client
    FROM memory_heuristicrevision r JOIN memory_heuristic h ON h.id = r.heuristic_id
    WHERE r.live AND r.approved_sha256 = r.content_sha256
        AND memory_is_valid(r);
-- When wordings end: what a process remembers of an answer holds until the next one does.
CREATE OR REPLACE VIEW servable_end AS
    SELECT r.project_id, memory_ends_at(r) AS ends_at FROM memory_heuristicrevision r
    WHERE r.live AND memory_has_end(r);
CREATE OR REPLACE VIEW servable_text AS
    SELECT project_id, heuristic_id, revision_id, trajectory_id, embedding_model_id, kind, vector, terms, term_ids
    FROM memory_heuristicembedding WHERE served;
CREATE OR REPLACE VIEW servable_name AS
    SELECT id AS revision_id, project_id, names FROM memory_heuristicrevision
    WHERE live AND approved_sha256 = content_sha256 AND names > '';
CREATE OR REPLACE VIEW servable_mistake_card AS
    SELECT r.id AS revision_id, r.project_id, r.heuristic_id AS card_id, r.trigger AS mistake_type, r.task_id,
           r.worker_id, r.avoid AS bad_decision, r.guideline AS correct_decision, r.rationale AS lesson,
           h.support AS seen_count, h.approved_support AS ranked_count
    FROM memory_heuristicrevision r JOIN memory_heuristic h ON h.id = r.heuristic_id
    WHERE r.kind = 'mistake' AND r.served AND r.approved_sha256 = r.content_sha256;
-- Of releases: which wordings are in those kept ready, and how each chooses among them.
CREATE OR REPLACE VIEW servable_member AS SELECT project_id, release_id, revision_id FROM memory_releasemember;
CREATE OR REPLACE VIEW servable_release AS
    SELECT id, project_id, number, sha256, manifest - 'lessons' AS settings,
           jsonb_array_length(manifest -> 'lessons') AS lessons
    FROM memory_release;

-- Of the runs that lessons come from: the agent and how the task begins, but no steps.
CREATE OR REPLACE VIEW servable_source AS
    SELECT id AS trajectory_id, agent, left(task, 300) AS task FROM memory_trajectory;
CREATE OR REPLACE VIEW servable_evidence AS
    SELECT heuristic_id, trajectory_id FROM memory_evidence WHERE approved_at IS NOT NULL;
-- Of all runs: figures for the score history, but no text.
CREATE OR REPLACE VIEW servable_outcome AS
    SELECT id, project_id, task_id, agent, outcome, score, created_at FROM memory_trajectory;

-- Of all runs: the names of the tools that were on offer, without their definitions. None where one entry is a server of
-- MCP whose tools only the provider knew.
CREATE OR REPLACE VIEW servable_offer AS
    SELECT id, project_id, agent, created_at, ARRAY(
        SELECT coalesce(tool #>> '{function,name}', tool ->> 'name', tool ->> 'type', tool #>> '{}')
        FROM jsonb_array_elements(tools) AS tool
        WHERE NOT tools @? '$[*] ? (!exists(@.name) && (@.type == "mcp" || @.type == "mcp_toolset"))') AS tools
    FROM memory_trajectory;

-- The same views, of the current project only: this schema comes first on the search path of a request that is limited
-- to its project (reliability D12).
CREATE SCHEMA IF NOT EXISTS erl_tenant;
CREATE OR REPLACE VIEW erl_tenant.servable_heuristic AS
    SELECT * FROM servable_heuristic WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_end AS
    SELECT * FROM servable_end WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_text AS
    SELECT * FROM servable_text WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_name AS
    SELECT * FROM servable_name WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_mistake_card AS
    SELECT * FROM servable_mistake_card WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_member AS
    SELECT * FROM servable_member WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_release AS
    SELECT * FROM servable_release WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_source AS
    SELECT id AS trajectory_id, agent, left(task, 300) AS task FROM memory_trajectory
    WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_evidence AS
    SELECT heuristic_id, trajectory_id FROM memory_evidence
    WHERE approved_at IS NOT NULL AND project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_outcome AS
    SELECT * FROM servable_outcome WHERE project_id = (SELECT memory_current_project());
CREATE OR REPLACE VIEW erl_tenant.servable_offer AS
    SELECT * FROM servable_offer WHERE project_id = (SELECT memory_current_project());

-- Searches run as erl_serving, which reads these views and tables. None of the tables holds a lesson.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        GRANT SELECT ON servable_heuristic, servable_text, servable_name, servable_mistake_card, servable_source,
            servable_evidence, servable_outcome, servable_offer, servable_end, servable_member, servable_release, memory_deployment, memory_embeddingmodel, memory_searchstatistics, memory_termcount,
            memory_servedchange, memory_polarityquota TO erl_serving;
    END IF;
END $$;

-- Let erl_tenant do what requests of the API do, on every table with the policy erl_project. Safe to repeat; does
-- nothing without the role. If this user may not create the role, a superuser does and calls this
-- (docs/reliability.md).
CREATE OR REPLACE FUNCTION memory_grant_tenant() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    each regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_tenant') THEN
        RETURN;
    END IF;
    FOR each IN SELECT polrelid FROM pg_policy WHERE polname = 'erl_project' LOOP
        IF each::text IN ('memory_project', 'memory_apikey', 'memory_projectmembership', 'memory_rulechange',
            'memory_auditentry', 'reflection_webhookendpoint', 'reflection_webhooksecret') THEN
            EXECUTE format('GRANT SELECT ON %s TO erl_tenant', each);
        ELSIF each::text IN ('memory_erasure', 'memory_quarantineorder') THEN
            EXECUTE format('GRANT SELECT, INSERT ON %s TO erl_tenant', each);
        ELSE
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO erl_tenant', each);
        END IF;
    END LOOP;
    GRANT SELECT, INSERT ON memory_embeddingmodel TO erl_tenant;
    -- What says whether the person of a key may still do what the key asks for
    GRANT SELECT (id, username, is_active, is_superuser) ON auth_user TO erl_tenant;
    GRANT SELECT ON auth_group, auth_permission, auth_user_groups, auth_user_user_permissions, auth_group_permissions,
        django_content_type TO erl_tenant;
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'erl_tenant') THEN
        GRANT USAGE ON SCHEMA erl_tenant TO erl_tenant;
        GRANT SELECT ON ALL TABLES IN SCHEMA erl_tenant TO erl_tenant;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
            GRANT USAGE ON SCHEMA erl_tenant TO erl_serving;
            GRANT SELECT ON ALL TABLES IN SCHEMA erl_tenant TO erl_serving;
        END IF;
    END IF;
END $$;
SELECT memory_grant_tenant();
