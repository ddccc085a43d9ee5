"""Changes bring lessons and settings of retrieval."""

from typing import Any

import django.contrib.postgres.fields
from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models

from memory.sql import install

CONTENT: Any = models.UniqueConstraint(
    fields=["agent", "target", "lessons", "retrieval"], name="agents_change_content_once"
)
CHANGES_SOMETHING: Any = models.CheckConstraint(
    condition=~models.Q(target=models.F("base")) | ~models.Q(lessons=[]) | ~models.Q(retrieval={}),
    name="agents_change_changes_something",
)


class Migration(migrations.Migration):
    atomic = False  # the index is built without a lock
    dependencies = [("agents", "0003_groups"), ("memory", "0003_groups")]
    operations = [
        migrations.AddField(
            "change",
            "lessons",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(),
                blank=True,
                db_default=[],
                default=list,
                help_text="Wordings of lessons that it brings.",
                size=None,
            ),
        ),
        migrations.AddField(
            "change",
            "retrieval",
            models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="How many lessons runs are given, if it changes that.",
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS agents_change_content_once "
                    "ON agents_change (agent_id, target_id, lessons, retrieval)",
                    migrations.RunSQL.noop,
                ),
                migrations.RunSQL(
                    "ALTER TABLE agents_change ADD CONSTRAINT agents_change_content_once "
                    "UNIQUE USING INDEX agents_change_content_once",
                    "ALTER TABLE agents_change DROP CONSTRAINT agents_change_content_once",
                ),
            ],
            state_operations=[migrations.AddConstraint("change", CONTENT)],
        ),
        migrations.RemoveConstraint("change", "agents_change_target_once"),
        migrations.RemoveConstraint("change", "agents_change_changes_something"),
        AddConstraintNotValid("change", CHANGES_SOMETHING),
        ValidateConstraint("change", "agents_change_changes_something"),
        install("runtime/sql/changes.sql"),
    ]
