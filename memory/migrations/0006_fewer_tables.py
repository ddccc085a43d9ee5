"""Who reads a lesson is noted on it. The tables of 1.0.0 are made anew, so no older release runs on them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

GONE = [migrations.DeleteModel("ReviewClaim")]


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0005_keys_of_deleted_accounts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.AddField(
            model_name="heuristic",
            name="claimed_by",
            field=models.ForeignKey(
                db_index=False,
                editable=False,
                help_text="The reviewer who reads it, for a few minutes.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="heuristic", name="claimed_until", field=models.DateTimeField(editable=False, null=True)
        ),
        migrations.AddIndex(
            model_name="heuristic",
            index=models.Index(
                condition=models.Q(("claimed_by__isnull", False)),
                fields=["claimed_by"],
                name="memory_heuristic_claimed",
            ),
        ),
        migrations.SeparateDatabaseAndState(GONE, GONE),
    ]
