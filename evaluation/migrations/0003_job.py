"""An evaluation that a client asked for is a job."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0002_tenant_role"), ("reflection", "0012_jobs")]
    operations = [
        migrations.AddField(
            model_name="evaluationrun",
            name="job",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="evaluation",
                to="reflection.job",
            ),
        ),
    ]
