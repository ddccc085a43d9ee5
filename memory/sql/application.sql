-- What the application may do: read and write rows. `manage.py migrate` calls this for the role that DATABASE_URL names.

-- Give a role the rights of the application on all tables. The owner of the tables calls it, after every migration; for
-- the owner's own role it does nothing.
CREATE OR REPLACE FUNCTION memory_grant_application(application name) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    each record;
    rights text;
BEGIN
    IF application = current_user THEN
        RETURN;
    END IF;
    -- Partitions have no rights of their own but SELECT, which a dump needs: their tables have the policies.
    FOR each IN SELECT oid::regclass AS relation, relname, relkind, relispartition FROM pg_class
        WHERE relnamespace IN ('public'::regnamespace, 'erl_tenant'::regnamespace) AND relkind IN ('r', 'p', 'v')
            AND pg_has_role(current_user, relowner, 'USAGE')
    LOOP
        rights := CASE
            WHEN each.relispartition THEN 'SELECT'
            WHEN each.relkind = 'v' THEN 'SELECT'
            WHEN each.relname IN ('memory_auditentry', 'django_migrations') THEN 'SELECT' -- written by triggers, the owner
            WHEN each.relname IN ('memory_erasure', 'memory_quarantineorder') THEN 'SELECT, INSERT'
            ELSE 'SELECT, INSERT, UPDATE, DELETE'
        END;
        EXECUTE format('REVOKE ALL ON %s FROM %I', each.relation, application);
        EXECUTE format('GRANT %s ON %s TO %I', rights, each.relation, application);
    END LOOP;
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO %I', application);
    EXECUTE format('GRANT USAGE ON SCHEMA public, erl_tenant TO %I', application);
    -- A temporary table would come before ours of the same name.
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC, %I', current_database(), application);
    REVOKE CREATE ON SCHEMA public FROM PUBLIC;
END $$;
