"""Find what is about an end user. Built without a lock that stops writes."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("memory", "0014_retention_of_projects")]

    operations = [
        AddIndexConcurrently(
            model_name='passage',
            index=models.Index(condition=models.Q(('user_id', ''), _negated=True), fields=['project', 'user_id', '-created_at'], name='memory_passage_of_user'),
        ),
        AddIndexConcurrently(
            model_name='trajectory',
            index=models.Index(condition=models.Q(('user_id', ''), _negated=True), fields=['project', 'user_id', '-created_at'], name='memory_trajectory_of_user'),
        ),
    ]
