"""Runs refer to answers without a foreign key, and the months of events are made by the functions that all months are."""

from django.db import migrations

from memory.sql import reinstall

_REPLACED = "DROP FUNCTION IF EXISTS agents_make_event_months, agents_event_months, agents_first_id"


class Migration(migrations.Migration):
    dependencies = [("agents", "0005_events_by_month"), ("memory", "0004_answers_by_month")]
    operations = [
        reinstall("runtime/sql/runs.sql"),
        migrations.SeparateDatabaseAndState([migrations.RunSQL(_REPLACED, migrations.RunSQL.noop)]),
    ]
