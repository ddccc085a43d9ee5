"""Find the runs that were told a text, and those of a conversation."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Left


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("memory", "0005_system_prompts")]
    operations = [
        AddIndexConcurrently(
            model_name="trajectory",
            index=models.Index(
                condition=models.Q(("system_prompt__isnull", False)),
                fields=["system_prompt"],
                name="memory_trajectory_told",
            ),
        ),
        AddIndexConcurrently(
            model_name="trajectory",
            index=models.Index(
                models.F("project"),
                Left(
                    Coalesce(
                        KeyTextTransform("conversation", "metadata"),
                        KeyTextTransform("session", "metadata"),
                        KeyTextTransform("session_id", "metadata"),
                    ),
                    200,
                ),
                condition=models.Q(("metadata__has_any_keys", ["conversation", "session", "session_id"])),
                name="memory_trajectory_turns",
            ),
        ),
    ]
