"""Find at once which lesson of a project went out of service last."""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("memory", "0007_validity_of_lessons")]
    operations = [
        AddIndexConcurrently(
            model_name="heuristicrevision",
            index=models.Index(
                condition=Q(("live", True), Q(("valid_until__isnull", False), ("expires_after__isnull", False), _connector="OR")),
                fields=["project"],
                name="memory_revision_ending",
            ),
        ),
        ValidateConstraint(model_name="heuristicrevision", name="memory_revision_expires_after_approval"),
    ]
