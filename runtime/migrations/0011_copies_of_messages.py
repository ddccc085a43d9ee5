"""What a message was copied to, found without reading all messages; made while messages are written."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("agents", "0010_conversations_rewound_and_forked")]
    operations = [
        AddIndexConcurrently(
            model_name='message',
            index=models.Index(condition=models.Q(('copied_from__isnull', False)), fields=['copied_from'], name='agents_message_copies'),
        ),
    ]
