-- The roles of a server for ERL, and the extensions its tables need. A superuser runs this once in the database ERL uses
-- and once in template1, from which other databases are made; it is safe to repeat. The embedded server and compose.yaml
-- use it as it is; for other servers docs/deploying.md says how.
DO $$
BEGIN
    IF current_setting('server_version_num')::int < 160000 THEN
        RAISE EXCEPTION 'ERL needs PostgreSQL 16 or newer. This server is %.', current_setting('server_version');
    END IF;
END $$;
DO $$
DECLARE
    wanted text;
BEGIN
    -- erl_owner owns the tables: migrations, indexes, backups. erl is the application: rows, and no tables. Agents' searches
    -- run as erl_serving, confined requests as erl_tenant.
    FOREACH wanted IN ARRAY ARRAY['erl_owner', 'erl', 'erl_serving', 'erl_tenant'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I', wanted);
        END IF;
    END LOOP;
    ALTER ROLE erl_owner LOGIN CREATEDB; -- for restore, and the sandboxes in which evaluations run
    ALTER ROLE erl_owner SET session_preload_libraries = 'pg_trgm'; -- a function sets a parameter of it, also in a restore
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = 'erl') THEN
        ALTER ROLE erl LOGIN BYPASSRLS; -- it serves every project; erl_tenant, which it becomes for a request, does not
    END IF;
    GRANT erl_serving, erl_tenant TO erl WITH INHERIT FALSE; -- it has their rights only while it is one of them
    GRANT erl TO erl_owner; -- so that a sandbox can belong to the application
END $$;
CREATE EXTENSION IF NOT EXISTS vector;
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS btree_gin;
