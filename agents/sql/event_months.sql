-- Events are kept in a partition for each month. The id of a run begins with the time it was made (UUID version 7), so
-- the events of a month's runs are a range of ids. agents_event_default takes what has no partition of its own.

-- The least id of a month; `month` is its first day.
CREATE OR REPLACE FUNCTION agents_first_id(month date) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT rpad(lpad(to_hex((extract(epoch FROM month) * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;

-- The partitions and the last month that each has.
CREATE OR REPLACE FUNCTION agents_event_months() RETURNS TABLE (part regclass, month date) LANGUAGE sql STABLE AS $$
    SELECT c.oid::regclass, to_date(right(c.relname, 7), 'YYYY_MM')
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'agents_event'::regclass AND c.relname <> 'agents_event_default'
$$;

-- Make the partitions of this month and some after it. A month that has events in the default partition gets none.
CREATE OR REPLACE FUNCTION agents_make_event_months(ahead integer) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
    this date := date_trunc('month', now() AT TIME ZONE 'UTC');
    last date := (SELECT max(m.month) FROM agents_event_months() m);
    first_id uuid;
    next_id uuid;
    each date;
BEGIN
    FOR each IN SELECT generate_series(
        greatest(this, last + interval '1 month'), this + make_interval(months => ahead), interval '1 month')
    LOOP
        first_id := agents_first_id(each);
        next_id := agents_first_id((each + interval '1 month')::date);
        CONTINUE WHEN EXISTS (SELECT FROM agents_event_default e WHERE e.run_id >= first_id AND e.run_id < next_id);
        -- The foreign keys of a partition need these locks. A writer takes them before that of the events, too.
        LOCK TABLE memory_project, agents_run IN SHARE ROW EXCLUSIVE MODE;
        EXECUTE format('CREATE TABLE agents_event_%s PARTITION OF agents_event FOR VALUES FROM (%L) TO (%L)',
                       to_char(each, 'YYYY_MM'), first_id, next_id);
    END LOOP;
END $$;

-- Drop the months that ended so many days ago, but for those with events of a run that goes on; return their names.
CREATE OR REPLACE FUNCTION agents_drop_event_months(days integer) RETURNS SETOF text LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
    until date := date_trunc('month', now() AT TIME ZONE 'UTC' - make_interval(days => days));
    each regclass;
    is_needed boolean;
    past regclass[] := '{}';
BEGIN
    DELETE FROM agents_event_default e WHERE e.run_id < agents_first_id(until) AND NOT EXISTS (
        SELECT FROM agents_run r WHERE r.id = e.run_id AND r.status IN ('queued', 'running', 'waiting'));
    FOR each IN SELECT m.part FROM agents_event_months() m WHERE m.month < until ORDER BY m.month LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM agents_run r WHERE r.status IN (''queued'', ''running'', ''waiting'')'
                       ' AND EXISTS (SELECT FROM %s e WHERE e.run_id = r.id))', each) INTO is_needed;
        past := CASE WHEN is_needed THEN past ELSE past || each END;
    END LOOP;
    FOREACH each IN ARRAY past LOOP -- last, since writers wait from the first one on
        RETURN NEXT each::text;
        EXECUTE format('DROP TABLE %s', each);
    END LOOP;
END $$;
