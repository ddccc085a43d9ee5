"""Keep what of an injected block was not lessons, so that the block can be shown again byte for byte."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0020_rules")]
    operations = [
        migrations.AddField(
            model_name="retrieval",
            name="record_text",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="What of the block was not lessons; those are kept with their words.",
            ),
        ),
    ]
