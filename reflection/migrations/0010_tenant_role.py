"""The second lock between projects, for reflections (reliability D12)."""

from importlib import import_module

from django.db import migrations

_tenant = import_module("memory.migrations.0027_tenant_role")

OF_PROJECT = (
    "reflection_consolidationrun",
    "reflection_dailyspend",
    "reflection_modelcall",
    "reflection_proposal",
    "reflection_reflection",
    "reflection_suggestion",
    "reflection_suggestionevidence",
)
# Whether a provider answers is nobody's secret, and a request that ranks with a model notes it.
GRANT = r"""
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_tenant') THEN
        GRANT SELECT, INSERT, UPDATE ON reflection_providerstate TO erl_tenant;
    END IF;
END $$;
SELECT memory_grant_tenant();
"""


class Migration(migrations.Migration):
    dependencies = [("reflection", "0009_ends_are_known"), ("memory", "0027_tenant_role")]
    operations = [
        *(migrations.RunSQL(_tenant.lock(table), _tenant.unlock(table)) for table in OF_PROJECT),
        migrations.RunSQL(GRANT, migrations.RunSQL.noop),
    ]
