"""Which projects have an index of their own, and how well their searches do with it."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0021_record_text")]
    operations = [
        migrations.CreateModel(
            name="SearchIndex",
            fields=[
                ("name", models.TextField(help_text="The index in the database.", primary_key=True, serialize=False)),
                ("texts", models.PositiveBigIntegerField(help_text="Texts that were in it when it was built.")),
                ("breadth", models.PositiveIntegerField(help_text="Texts that a search takes from it before it compares exactly.")),
                ("build_seconds", models.FloatField()),
                ("built_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("recall_mean", models.FloatField(blank=True, help_text="Share of the 20 likest lessons that searches find, over logged tasks.", null=True)),
                ("recall_least", models.FloatField(blank=True, help_text="That share of the task it is lowest for.", null=True)),
                ("recall_tasks", models.PositiveIntegerField(default=0, help_text="Tasks it was measured on.")),
                ("measured_at", models.DateTimeField(blank=True, null=True)),
                ("embedding_model", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.embeddingmodel")),
                ("project", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.project")),
            ],
            options={"verbose_name_plural": "search indexes", "ordering": ["project", "-built_at"]},
        ),
        migrations.RunSQL(
            """
            DO $$
            BEGIN
                IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
                    GRANT SELECT ON memory_searchindex TO erl_serving;
                END IF;
            END $$;
            """,
            migrations.RunSQL.noop,
        ),
    ]
