"""Events are in one table again, as they were: they are small, without a text, and stay as long as their run."""

from django.db import migrations

from memory.sql import reinstall
from memory.sql.partition import take_over

_MAKE_WHOLE = f"""
DO $$
DECLARE
    was regclass := 'agents_event'::regclass;
    each record;
BEGIN
    LOCK TABLE memory_project, agents_run IN SHARE ROW EXCLUSIVE MODE; -- in the order in which writers take them
    LOCK TABLE agents_event IN ACCESS EXCLUSIVE MODE;
    ALTER TABLE agents_event RENAME TO agents_event_partitioned;
    CREATE TABLE agents_event (LIKE agents_event_partitioned INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
    INSERT INTO agents_event SELECT * FROM agents_event_partitioned WHERE kind <> 'text';
{take_over("agents_event")}
    DROP TABLE agents_event_partitioned;
    ALTER TABLE agents_event ADD PRIMARY KEY (run_id, seq);
    CREATE INDEX ON agents_event (project_id);
    DROP FUNCTION IF EXISTS agents_drop_event_months;
END $$
"""  # noqa: S608 - our own


class Migration(migrations.Migration):
    dependencies = [("agents", "0013_files_of_messages")]
    operations = [
        migrations.SeparateDatabaseAndState([migrations.RunSQL(_MAKE_WHOLE, migrations.RunSQL.noop)]),
        reinstall("runtime/sql/runs.sql"),
    ]
