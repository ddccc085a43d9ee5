import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # indexes are made and dropped concurrently

    dependencies = [("memory", "0034_retrieval_options")]

    operations = [
        migrations.AddField(
            model_name="retrieval",
            name="injected_ids",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(), db_default=[], default=list, size=None
            ),
        ),
        AddIndexConcurrently(
            model_name="retrieval",
            index=django.contrib.postgres.indexes.GinIndex(fields=["injected_ids"], name="memory_retrieval_injected"),
        ),
        RemoveIndexConcurrently(model_name="retrieval", name="memory_retrieval_carried"),
    ]
