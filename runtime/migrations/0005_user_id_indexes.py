"""Find what is about an end user. Built without a lock that stops writes."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("agents", "0004_user_id")]

    operations = [
        AddIndexConcurrently(
            model_name='conversation',
            index=models.Index(condition=models.Q(('user_id', ''), _negated=True), fields=['project', 'user_id', '-created_at'], name='agents_conversation_of_user'),
        ),
    ]
