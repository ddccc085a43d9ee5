"""Lessons that hold for a time, and the tools of runs for retrieval."""

from datetime import timedelta

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("memory", "0006_system_prompt_indexes")]
    operations = [
        migrations.AddField(
            model_name="heuristicrevision",
            name="expires_after",
            field=models.DurationField(
                blank=True, help_text="How long after its approval it goes out of service by itself.", null=True
            ),
        ),
        migrations.AddField(
            model_name="heuristicrevision",
            name="valid_until",
            field=models.DateTimeField(blank=True, help_text="When it goes out of service by itself.", null=True),
        ),
        AddConstraintNotValid(
            model_name="heuristicrevision",
            constraint=models.CheckConstraint(
                condition=Q(
                    ("expires_after__isnull", True),
                    Q(("expires_after__gt", timedelta(0)), ("expires_after__lte", timedelta(days=3650))),
                    _connector="OR",
                ),
                name="memory_revision_expires_after_approval",
            ),
        ),
    ]
