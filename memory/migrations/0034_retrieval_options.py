"""An answer remembers its filters and options, so that an empty one can be explained."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0033_names_index")]
    operations = [
        migrations.AddField(
            model_name="retrieval",
            name="options",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="What else was asked: filters, seed, boundary, record; only what was not as usual.",
            ),
        ),
    ]
