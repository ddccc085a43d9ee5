"""The end user of a run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0010_languages")]
    operations = [
        migrations.AddField(
            model_name='trajectory',
            name='user_id',
            field=models.TextField(blank=True, db_default='', default='', help_text="The client's own id of its end user."),
        ),
    ]
