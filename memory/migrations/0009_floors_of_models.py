"""Floors of embedding models by language. What fills them is a migration of its own, so that this lock is short."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0008_index_of_ends")]
    operations = [
        migrations.AddField("embeddingmodel", "floors", models.JSONField(editable=False, null=True)),
    ]
