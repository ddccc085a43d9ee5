"""Let the groups see experiments, evolutions and what candidates would have answered.

Who may deploy may start and stop experiments. Operators start evaluations."""

from typing import Any

from django.db import migrations

from memory.groups import grant_permissions

_VIEWED = ["view_experiment", "view_shadowanswer", "view_evaluationrun", "view_evolution"]
PERMISSIONS = {"Auditor": _VIEWED, "Reviewer": _VIEWED, "Operator": [*_VIEWED, "add_evaluationrun"]}


def extend_groups(apps: Any, schema_editor: Any) -> None:
    grant_permissions(apps, "evaluation", PERMISSIONS)


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0002_database_rules"), ("memory", "0003_groups")]
    operations = [migrations.RunPython(extend_groups, migrations.RunPython.noop)]
