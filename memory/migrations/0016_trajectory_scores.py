"""The score history of a task family and agent is read from an index alone."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # the index is built while runs are recorded

    dependencies = [("memory", "0015_mistake_guards")]
    operations = [
        AddIndexConcurrently(
            model_name="trajectory",
            index=models.Index(
                fields=["project", "task_id", "agent", "-created_at"],
                include=("score", "outcome"),
                name="memory_trajectory_scores",
            ),
        ),
    ]
