"""What an erasure of a person took."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0012_user_of_passages")]
    operations = [
        migrations.AddField(
            model_name='erasure',
            name='receipt',
            field=models.JSONField(editable=False, help_text='How many rows of each kind went with a person.', null=True),
        ),
    ]
