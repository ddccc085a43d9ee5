-- The two database roles, and what the session variable erl.project_id means.

-- A role belongs to the whole server, so it may exist already. A user who may not create roles gets a notice: ERL works
-- without them, and an operator can create them later (docs/reliability.md).
DO $$
DECLARE
    wanted text;
BEGIN
    -- erl_serving reads what may be served and nothing else. erl_tenant sees and writes the rows of one project.
    FOREACH wanted IN ARRAY ARRAY['erl_serving', 'erl_tenant'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            END IF;
            IF NOT pg_has_role(current_user, wanted, 'MEMBER') THEN
                EXECUTE format('GRANT %I TO %I', wanted, current_user);
            END IF;
        EXCEPTION
            -- internal_error: two databases of one server do the same at once.
            WHEN duplicate_object OR unique_violation OR invalid_grant_operation OR internal_error THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'This user may not create the role %; ERL runs without it.', wanted;
        END;
    END LOOP;
END $$;

-- The project that this transaction is limited to; NULL when it is limited to none.
CREATE OR REPLACE FUNCTION memory_current_project() RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('erl.project_id', true), '')::uuid
$$;

-- Whether this transaction sees the rows of every project. The tenant role never does.
CREATE OR REPLACE FUNCTION memory_sees_every_project() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT current_user <> 'erl_tenant' AND nullif(current_setting('erl.project_id', true), '') IS NULL
$$;
