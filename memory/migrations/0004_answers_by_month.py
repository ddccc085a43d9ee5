"""Answers are partitioned by month. The table becomes the first partition as it is: no row is copied.

What refers to answers has no foreign key any more, so that a month can be dropped; triggers check it (projects.sql).
The first migrations of the apps make these columns without one, since a new database has no order between them and this.
Where a lock was not to be had, the migration can be run again.
"""

from typing import Any

from django.db import migrations, models

from memory.sql import install, reinstall
from memory.sql.partition import take_over

# The rows that exist, and those that arrive until the end of the next month, are in the first partition.
_FIRST = """
DO $$ BEGIN
    ALTER TABLE memory_retrieval DROP CONSTRAINT IF EXISTS memory_retrieval_first_month;
    EXECUTE format('ALTER TABLE memory_retrieval ADD CONSTRAINT memory_retrieval_first_month'
                   ' CHECK (NOT is_kept AND id < %L) NOT VALID',
                   memory_first_id((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months')::date));
END $$
"""
# The tables that refer to answers: by a foreign key until now, or by the trigger.
_REFERRING = """
    SELECT conrelid::regclass AS referring, conname FROM pg_constraint
        WHERE confrelid = 'memory_retrieval'::regclass AND contype = 'f' AND conparentid = 0
    UNION SELECT left(tgname, -length('_needs_answer'))::regclass, NULL FROM pg_trigger
        WHERE tgrelid = 'memory_retrieval'::regclass AND tgname LIKE '%\\_needs\\_answer'
"""
# In the order in which writers take them.
_LOCK = f"""
    LOCK TABLE memory_project, memory_apikey, memory_release IN SHARE ROW EXCLUSIVE MODE;
    FOR each IN {_REFERRING} LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', each.referring);
        referring := referring || each.referring;
    END LOOP;
    LOCK TABLE memory_retrieval IN ACCESS EXCLUSIVE MODE;
"""  # noqa: S608
_NEED = """
    FOR each IN SELECT DISTINCT unnest(referring) AS it LOOP
        EXECUTE format('CREATE CONSTRAINT TRIGGER %s_needs_answer AFTER DELETE ON memory_retrieval'
                       ' DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION memory_keep_answer(%L)',
                       each.it, each.it);
    END LOOP;
"""
_INDEXES = """
    CREATE INDEX memory_retrieval_api_key_id_2fd30d4d ON memory_retrieval (api_key_id);
    CREATE INDEX memory_retrieval_recent ON memory_retrieval (project_id, created_at DESC, id DESC);
    CREATE INDEX memory_retrieval_injected ON memory_retrieval USING gin (injected_ids);
"""
_PARTITION = f"""
DO $$
DECLARE
    was regclass := 'memory_retrieval'::regclass;
    next_month date := date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month';
    referring regclass[] := '{{}}';
    each record;
BEGIN
{_LOCK}
    FOR each IN {_REFERRING} LOOP
        IF each.conname IS NULL THEN
            EXECUTE format('DROP TRIGGER %s_needs_answer ON memory_retrieval', each.referring);
        ELSE
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', each.referring, each.conname);
        END IF;
    END LOOP;
    DROP TRIGGER memory_retrieval_keep_project ON memory_retrieval;
    DROP POLICY erl_project ON memory_retrieval;
    ALTER TABLE memory_retrieval DISABLE ROW LEVEL SECURITY;
    ALTER TABLE memory_retrieval DROP CONSTRAINT memory_retrieval_pkey,
        ADD CONSTRAINT memory_retrieval_first_key PRIMARY KEY USING INDEX memory_retrieval_first_key;
    FOR each IN SELECT indexrelid::regclass AS it FROM pg_index WHERE indrelid = was AND NOT indisprimary LOOP
        EXECUTE format('ALTER INDEX %s RENAME TO %I', each.it, 'first_' || each.it);
    END LOOP;
    EXECUTE format('ALTER TABLE memory_retrieval RENAME TO memory_retrieval_%s', to_char(next_month, 'YYYY_MM'));
    EXECUTE format('CREATE TABLE memory_retrieval (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS,'
                   ' CONSTRAINT memory_retrieval_pkey PRIMARY KEY (id, is_kept)) PARTITION BY LIST (is_kept)', was);
    ALTER TABLE memory_retrieval DROP CONSTRAINT memory_retrieval_first_month;
{_INDEXES}{take_over("memory_retrieval")}{_NEED}
    CREATE TABLE memory_retrieval_kept PARTITION OF memory_retrieval FOR VALUES IN (true);
    CREATE TABLE memory_retrieval_months PARTITION OF memory_retrieval FOR VALUES IN (false) PARTITION BY RANGE (id);
    EXECUTE format('ALTER TABLE memory_retrieval_months ATTACH PARTITION %s FOR VALUES FROM (MINVALUE) TO (%L)',
                   was, memory_first_id((next_month + interval '1 month')::date));
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT memory_retrieval_first_month', was);
    CREATE TABLE memory_retrieval_default PARTITION OF memory_retrieval_months DEFAULT;
    PERFORM memory_make_months('memory_retrieval_months', 2);
END $$
"""
_MAKE_WHOLE = f"""
DO $$
DECLARE
    was regclass := 'memory_retrieval'::regclass;
    referring regclass[] := '{{}}';
    each record;
BEGIN
{_LOCK}
    ALTER TABLE memory_retrieval RENAME TO memory_retrieval_partitioned;
    CREATE TABLE memory_retrieval (LIKE memory_retrieval_partitioned INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
    INSERT INTO memory_retrieval SELECT * FROM memory_retrieval_partitioned;
{take_over("memory_retrieval")}
    DROP TABLE memory_retrieval_partitioned;
    ALTER TABLE memory_retrieval ADD PRIMARY KEY (id);
{_INDEXES}
    FOR each IN SELECT DISTINCT unnest(referring) AS it LOOP
        EXECUTE format('ALTER TABLE %s ADD FOREIGN KEY (retrieval_id) REFERENCES memory_retrieval'
                       ' DEFERRABLE INITIALLY DEFERRED', each.it);
    END LOOP;
END $$
"""


def run(statement: str, reverse: str = migrations.RunSQL.noop) -> Any:
    return migrations.RunSQL(statement, reverse)


class Migration(migrations.Migration):
    atomic = False  # the index is built and the rows are checked without a lock
    dependencies = [("memory", "0003_groups")]
    operations = [
        install("memory/sql/months.sql"),
        reinstall("memory/sql/projects.sql"),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                run(
                    "ALTER TABLE memory_retrieval ADD COLUMN IF NOT EXISTS is_kept boolean NOT NULL DEFAULT false",
                    "ALTER TABLE memory_retrieval DROP COLUMN is_kept",
                ),
                run("DROP INDEX CONCURRENTLY IF EXISTS memory_retrieval_first_key"),
                run("CREATE UNIQUE INDEX CONCURRENTLY memory_retrieval_first_key ON memory_retrieval (id, is_kept)"),
                run(_FIRST),
                run("ALTER TABLE memory_retrieval VALIDATE CONSTRAINT memory_retrieval_first_month"),
                run(_PARTITION, _MAKE_WHOLE),
            ],
            state_operations=[
                migrations.AddField(
                    "retrieval",
                    "is_kept",
                    models.BooleanField(
                        db_default=False, editable=False, help_text="Its month was dropped, and it is kept as evidence."
                    ),
                )
            ],
        ),
    ]
