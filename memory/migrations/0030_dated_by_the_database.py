"""Date runs, lessons and their wordings by the database's clock, by which quarantine looks for them."""

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("memory", "0029_same_words")]

    operations = [
        migrations.AlterField(
            model_name=name,
            name="created_at",
            field=models.DateTimeField(db_default=Now(), editable=False),
        )
        for name in ("trajectory", "heuristic", "heuristicrevision")
    ]
