"""The end user that a passage is about."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0011_user_of_runs")]
    operations = [
        migrations.AddField(
            model_name='passage',
            name='user_id',
            field=models.TextField(blank=True, db_default='', default='', help_text="The client's own id of the end user it is about."),
        ),
    ]
