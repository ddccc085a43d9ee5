"""Hold the polarity and the scope of a wording to their choices in the database, too."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0003_groups")]
    # The checks hold for new rows at once. The next migration reads the rows that exist.
    operations = [
        AddConstraintNotValid(
            "heuristicrevision",
            models.CheckConstraint(
                condition=models.Q(polarity__in=["works", "avoid", "mixed"]), name="memory_revision_polarity_known"
            ),
        ),
        AddConstraintNotValid(
            "heuristicrevision",
            models.CheckConstraint(
                condition=models.Q(scope__in=["task_family", "project"]), name="memory_revision_scope_known"
            ),
        ),
    ]
