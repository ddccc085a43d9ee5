"""A second lock between projects: a role that sees and writes rows of one project alone (reliability D12)."""

from django.db import migrations

OF_PROJECT = (
    "memory_apikey",
    "memory_auditentry",
    "memory_erasure",
    "memory_evidence",
    "memory_heuristic",
    "memory_heuristicembedding",
    "memory_heuristicfeedback",
    "memory_heuristicrevision",
    "memory_idempotencyrecord",
    "memory_memoryimport",
    "memory_mistakecard",
    "memory_mistakecardreview",
    "memory_mistakecardrevision",
    "memory_mistakeembedding",
    "memory_mistakemerge",
    "memory_mistakesighting",
    "memory_polarityquota",
    "memory_quarantineorder",
    "memory_retrieval",
    "memory_review",
    "memory_searchindex",
    "memory_searchstatistics",
    "memory_servedchange",
    "memory_taskvector",
    "memory_termchange",
    "memory_termcount",
    "memory_trajectory",
    "memory_usageverdict",
)
OTHERS = {
    "memory_project": "id = (SELECT memory_seen_project())",
    "memory_projectmembership": "project_id = (SELECT memory_seen_project()) OR project_id IS NULL",
    "memory_reviewclaim": "EXISTS (SELECT FROM memory_heuristic h WHERE h.id = heuristic_id)",
    "memory_deskopening": "EXISTS (SELECT FROM memory_heuristic h WHERE h.id = heuristic_id)",
}
VIEWS = ("servable_heuristic", "servable_text", "servable_mistake_card", "servable_outcome")

FORWARD = r"""
-- The project that a transaction is held to, and whether it is held to none.
CREATE FUNCTION memory_seen_project() RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('erl.project_id', true), '')::uuid
$$;
CREATE FUNCTION memory_sees_all() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT current_user <> 'erl_tenant' AND nullif(current_setting('erl.project_id', true), '') IS NULL
$$;

-- These hold a row of the project, which the role may only read.
ALTER FUNCTION memory_is_person(uuid, text) SECURITY DEFINER;
ALTER FUNCTION memory_two_reviewers() SECURITY DEFINER;
ALTER FUNCTION memory_person_for_card() SECURITY DEFINER;

-- The role may do what requests of the API do, to tables that have the policy. Safe to repeat, and without the role
-- it does nothing: where this user may not make one, a superuser does and calls it (docs/reliability.md).
CREATE FUNCTION memory_grant_tenant() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    each regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_tenant') THEN
        RETURN;
    END IF;
    FOR each IN SELECT polrelid FROM pg_policy WHERE polname = 'erl_project' LOOP
        IF each::text IN ('memory_project', 'memory_apikey', 'memory_projectmembership') THEN
            EXECUTE format('GRANT SELECT ON %s TO erl_tenant', each);
        ELSE
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO erl_tenant', each);
        END IF;
    END LOOP;
    GRANT SELECT, INSERT ON memory_embeddingmodel TO erl_tenant;
    GRANT SELECT (id, username, is_active) ON auth_user TO erl_tenant;
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'erl_tenant') THEN
        GRANT USAGE ON SCHEMA erl_tenant TO erl_tenant;
        GRANT SELECT ON ALL TABLES IN SCHEMA erl_tenant TO erl_tenant;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
            GRANT USAGE ON SCHEMA erl_tenant TO erl_serving;
            GRANT SELECT ON ALL TABLES IN SCHEMA erl_tenant TO erl_serving;
        END IF;
    END IF;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_tenant') THEN
        CREATE ROLE erl_tenant NOLOGIN;
    END IF;
    EXECUTE format('GRANT erl_tenant TO %I', current_user);
EXCEPTION
    -- The last is two databases of one server doing the same at once.
    WHEN duplicate_object OR unique_violation OR invalid_grant_operation OR internal_error THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'This user may not create the role erl_tenant; ERL_TENANT_ROLE needs it.';
END $$;

-- What searches read, of one project: found first on the search path while a request is held to its project.
CREATE SCHEMA erl_tenant;
CREATE VIEW erl_tenant.servable_source AS
    SELECT id AS trajectory_id, agent, left(task, 300) AS task FROM memory_trajectory
    WHERE project_id = (SELECT memory_seen_project());
CREATE VIEW erl_tenant.servable_evidence AS
    SELECT heuristic_id, trajectory_id FROM memory_evidence WHERE project_id = (SELECT memory_seen_project());
"""
FORWARD += "".join(
    f"CREATE VIEW erl_tenant.{view} AS SELECT * FROM {view} WHERE project_id = (SELECT memory_seen_project());\n"
    for view in VIEWS
)

REVERSE = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_tenant') THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA public, erl_tenant FROM erl_tenant;
        REVOKE ALL ON SCHEMA erl_tenant FROM erl_tenant;
        REVOKE SELECT (id, username, is_active) ON auth_user FROM erl_tenant;
    END IF;
END $$;
DROP SCHEMA erl_tenant CASCADE;
ALTER FUNCTION memory_person_for_card() SECURITY INVOKER;
ALTER FUNCTION memory_two_reviewers() SECURITY INVOKER;
ALTER FUNCTION memory_is_person(uuid, text) SECURITY INVOKER;
DROP FUNCTION memory_grant_tenant(), memory_sees_all(), memory_seen_project();
"""


def lock(table: str, rule: str = "project_id = (SELECT memory_seen_project())") -> str:
    """Return the policy of a table. Its owner is not held by it, nor is any other role until a project is set."""
    return f"""
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY erl_project ON {table} USING ((SELECT memory_sees_all()) OR {rule});
"""


def unlock(table: str) -> str:
    """Return what takes the policy of a table away."""
    return f"DROP POLICY erl_project ON {table};\nALTER TABLE {table} DISABLE ROW LEVEL SECURITY;\n"


class Migration(migrations.Migration):
    dependencies = [("memory", "0026_projects_apart")]
    operations = [
        migrations.RunSQL(FORWARD, REVERSE),
        *(migrations.RunSQL(lock(table), unlock(table)) for table in OF_PROJECT),
        *(migrations.RunSQL(lock(table, rule), unlock(table)) for table, rule in OTHERS.items()),
        migrations.RunSQL("SELECT memory_grant_tenant()", migrations.RunSQL.noop),
    ]
