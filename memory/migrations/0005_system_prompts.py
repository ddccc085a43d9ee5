"""Keep what agents were told before their runs, each text once in a project."""

import django.db.models.deletion
from django.db import migrations, models

import memory.ids
from memory.sql import install


class Migration(migrations.Migration):
    dependencies = [("memory", "0004_revision_choices")]
    operations = [
        migrations.CreateModel(
            name="SystemPrompt",
            fields=[
                (
                    "id",
                    models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("sha256", models.TextField(editable=False)),
                ("text", models.TextField()),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memory.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("text", ""), _negated=True), name="memory_systemprompt_text_not_blank"
                    ),
                    models.UniqueConstraint(fields=["project", "sha256"], name="memory_systemprompt_once"),
                ]
            },
        ),
        migrations.AddField(
            model_name="trajectory",
            name="system_prompt",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="What the agent was told before the run.",
                null=True,
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="runs",
                to="memory.systemprompt",
            ),
        ),
        install("memory/sql/runs.sql"),
    ]
