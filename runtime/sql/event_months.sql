-- Events are kept in a partition for each month of their runs (memory/sql/months.sql).

-- Drop the months that ended so many days ago, but for those with events of a run that goes on; return their names.
CREATE OR REPLACE FUNCTION agents_drop_event_months(days integer) RETURNS SETOF text LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
    until date := date_trunc('month', now() AT TIME ZONE 'UTC' - make_interval(days => days));
    each regclass;
    is_needed boolean;
    past regclass[] := '{}';
BEGIN
    DELETE FROM agents_event_default e WHERE e.run_id < memory_first_id(until) AND NOT EXISTS (
        SELECT FROM agents_run r WHERE r.id = e.run_id AND r.status IN ('queued', 'running', 'waiting'));
    FOR each IN SELECT m.part FROM memory_months('agents_event') m WHERE m.month < until ORDER BY m.month LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM agents_run r WHERE r.status IN (''queued'', ''running'', ''waiting'')'
                       ' AND EXISTS (SELECT FROM %s e WHERE e.run_id = r.id))', each) INTO is_needed;
        past := CASE WHEN is_needed THEN past ELSE past || each END;
    END LOOP;
    FOREACH each IN ARRAY past LOOP -- last, since writers wait from the first one on
        RETURN NEXT each::text;
        EXECUTE format('DROP TABLE %s', each);
    END LOOP;
END $$;
