"""What the database guarantees beyond constraints; memory/sql/ has the definitions."""

from typing import Any

from django.db import migrations

from memory.sql import install

# Django makes no partitioned tables, so the empty one that it made is replaced. Answers are kept by the month of their
# id, but for those that outlive their month as evidence.
_PARTITION_ANSWERS = """
DO $$
DECLARE
    rest text[] := (
        SELECT array_agg(statement) FROM (
            SELECT pg_get_indexdef(indexrelid) FROM pg_index
            WHERE indrelid = 'memory_retrieval'::regclass AND NOT indisprimary
            UNION ALL
            SELECT format('ALTER TABLE memory_retrieval ADD CONSTRAINT %I %s', conname, pg_get_constraintdef(oid))
            FROM pg_constraint WHERE conrelid = 'memory_retrieval'::regclass AND contype = 'f'
        ) AS statements(statement));
    each text;
BEGIN
    ALTER TABLE memory_retrieval RENAME TO memory_retrieval_whole;
    CREATE TABLE memory_retrieval (LIKE memory_retrieval_whole INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
        PARTITION BY LIST (is_kept);
    DROP TABLE memory_retrieval_whole;
    ALTER TABLE memory_retrieval ADD CONSTRAINT memory_retrieval_pkey PRIMARY KEY (id, is_kept);
    FOREACH each IN ARRAY rest LOOP
        EXECUTE each;
    END LOOP;
    CREATE TABLE memory_retrieval_kept PARTITION OF memory_retrieval FOR VALUES IN (true);
    CREATE TABLE memory_retrieval_months PARTITION OF memory_retrieval FOR VALUES IN (false) PARTITION BY RANGE (id);
    CREATE TABLE memory_retrieval_default PARTITION OF memory_retrieval_months DEFAULT;
    PERFORM memory_make_months('memory_retrieval_months', 2);
END $$
"""
_partition_answers: Any = migrations.RunSQL(_PARTITION_ANSWERS, migrations.RunSQL.noop)


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [
        install("memory/sql/roles.sql"),
        install("memory/sql/months.sql"),
        migrations.SeparateDatabaseAndState(database_operations=[_partition_answers]),
        install("memory/sql/review.sql"),
        install("memory/sql/heuristics.sql"),
        install("memory/sql/search.sql"),
        install("memory/sql/audit.sql"),
        install("memory/sql/quarantine.sql"),
        install("memory/sql/blocks.sql"),
        install("memory/sql/releases.sql"),
        install("memory/sql/discussion.sql"),
        install("memory/sql/projects.sql"),
        install("memory/sql/serving.sql"),
        install("memory/sql/application.sql"),
    ]
