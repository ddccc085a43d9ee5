"""The second lock between projects, for evaluations (reliability D12)."""

from importlib import import_module

from django.db import migrations

_tenant = import_module("memory.migrations.0027_tenant_role")


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0001_initial"), ("memory", "0027_tenant_role")]
    operations = [
        migrations.RunSQL(_tenant.lock("evaluation_evaluationrun"), _tenant.unlock("evaluation_evaluationrun")),
        migrations.RunSQL("SELECT memory_grant_tenant()", migrations.RunSQL.noop),
    ]
