"""Let the groups see agents and what they do, reviewers decide on calls, changes and tools, and both talk to agents."""

from typing import Any

from django.db import migrations

from memory.groups import grant_permissions

VIEW = ["view_agent", "view_run", "view_approval", "view_tool", "view_change"]
PERMISSIONS = {
    "Auditor": VIEW,
    "Reviewer": [*VIEW, "decide_approval", "decide_change", "review_tool", "talk_to_agent"],
    "Operator": [*VIEW, "talk_to_agent"],
}


def extend_groups(apps: Any, schema_editor: Any) -> None:
    grant_permissions(apps, "agents", PERMISSIONS)


class Migration(migrations.Migration):
    dependencies = [("agents", "0002_database_rules"), ("memory", "0003_groups")]
    operations = [migrations.RunPython(extend_groups, migrations.RunPython.noop)]
