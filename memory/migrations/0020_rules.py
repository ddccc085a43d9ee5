"""Rules are found without a search: an index of what is served and tagged so."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0019_changes_of_texts"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="heuristicrevision",
            index=models.Index(
                condition=models.Q(("served", True), ("tags__contains", ["rule"])),
                fields=["project", "task_id"],
                name="memory_revision_rules",
            ),
        ),
    ]
