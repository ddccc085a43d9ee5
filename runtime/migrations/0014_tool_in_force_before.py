import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0013_files_of_messages")]

    operations = [
        migrations.AddField(
            "tool",
            "previous",
            models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="agents.toolrevision",
            ),
        ),
    ]
