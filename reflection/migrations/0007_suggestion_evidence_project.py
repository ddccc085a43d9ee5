"""Say of each run that speaks for a suggestion whose it is, as every table does."""

import uuid
from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def forget_evidence(apps: Any, schema_editor: Any) -> None:
    """Drop what development versions may have written; no release has any."""
    apps.get_model("reflection", "SuggestionEvidence").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("memory", "0017_usefulness"), ("reflection", "0006_consolidation_groups")]
    operations = [
        migrations.RunPython(forget_evidence, migrations.RunPython.noop),
        migrations.AddField(
            model_name="suggestionevidence",
            name="project",
            field=models.ForeignKey(
                default=uuid.UUID(int=0),
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="memory.project",
            ),
            preserve_default=False,
        ),
    ]
