-- Tables with a partition for each month. An id of UUID version 7 begins with the time it was made, so the rows of a
-- month are a range of ids. Every such table has a partition named …_default, which takes what has no month.

-- The least id of a month; `month` is its first day.
CREATE OR REPLACE FUNCTION memory_first_id(month date) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT rpad(lpad(to_hex((extract(epoch FROM month) * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;

-- The partitions of a table and the last month that each has.
CREATE OR REPLACE FUNCTION memory_months(of_table regclass) RETURNS TABLE (part regclass, month date)
LANGUAGE sql STABLE AS $$
    SELECT c.oid::regclass, to_date(right(c.relname, 7), 'YYYY_MM')
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = of_table AND c.relname NOT LIKE '%\_default'
$$;

-- Make the partitions of this month and some after it. A month that has rows in the default partition gets none.
CREATE OR REPLACE FUNCTION memory_make_months(of_table regclass, ahead integer) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
    this date := date_trunc('month', now() AT TIME ZONE 'UTC');
    last date := (SELECT max(m.month) FROM memory_months(of_table) m);
    rest regclass;
    id_column name;
    each date;
    referred regclass;
    reader regrole;
    has_rows boolean;
BEGIN
    SELECT p.partdefid, a.attname INTO STRICT rest, id_column FROM pg_partitioned_table p
        JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0] WHERE p.partrelid = of_table;
    FOR each IN SELECT generate_series(
        greatest(this, last + interval '1 month'), this + make_interval(months => ahead), interval '1 month')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %2$I >= memory_first_id($1) AND %2$I < memory_first_id($2))',
                       rest, id_column) INTO has_rows USING each, (each + interval '1 month')::date;
        CONTINUE WHEN has_rows;
        -- The foreign keys of a partition need these locks. A writer takes them before that of the table, too.
        FOR referred IN SELECT DISTINCT confrelid FROM pg_constraint
            WHERE conrelid = of_table AND contype = 'f' ORDER BY confrelid
        LOOP
            EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', referred);
        END LOOP;
        EXECUTE format('CREATE TABLE %I PARTITION OF %s FOR VALUES FROM (%L) TO (%L)',
                       replace(rest::text, 'default', to_char(each, 'YYYY_MM')), of_table,
                       memory_first_id(each), memory_first_id((each + interval '1 month')::date));
        -- A role that may read the table may dump it, and a dump reads the partitions by name.
        FOR reader IN SELECT DISTINCT grantee::regrole FROM pg_class c, aclexplode(c.relacl)
            WHERE c.oid = of_table AND privilege_type = 'SELECT' AND grantee <> 0 AND grantee <> c.relowner
                AND grantee::regrole::text NOT IN ('erl_tenant', 'erl_serving')
        LOOP
            EXECUTE format('GRANT SELECT ON %I TO %s',
                           replace(rest::text, 'default', to_char(each, 'YYYY_MM')), reader);
        END LOOP;
    END LOOP;
END $$;
