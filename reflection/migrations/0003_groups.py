"""Let the groups see reflections and consolidations, and operators ask for them and manage webhooks."""

from typing import Any

from django.db import migrations

from memory.groups import grant_permissions

VIEW = ["view_reflection", "view_dailyspend", "view_consolidationrun", "view_suggestion"]
PERMISSIONS = {
    "Auditor": VIEW,
    "Reviewer": VIEW,
    "Operator": [
        *VIEW,
        "view_modelcall",
        "requeue_reflection",
        "consolidate_project",
        "view_webhookendpoint",
        "add_webhookendpoint",
        "change_webhookendpoint",
        "delete_webhookendpoint",
        "view_webhookdelivery",
    ],
}


def extend_groups(apps: Any, schema_editor: Any) -> None:
    grant_permissions(apps, "reflection", PERMISSIONS)


class Migration(migrations.Migration):
    dependencies = [("reflection", "0002_database_rules"), ("memory", "0003_groups")]
    operations = [migrations.RunPython(extend_groups, migrations.RunPython.noop)]
