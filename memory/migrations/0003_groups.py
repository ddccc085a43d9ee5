"""Make the groups Reviewer, Auditor and Operator, and let them do what memory/groups.py says."""

from typing import Any

from django.db import migrations

from memory.groups import MEMORY_PERMISSIONS, grant_permissions


def make_groups(apps: Any, schema_editor: Any) -> None:
    grant_permissions(apps, "memory", MEMORY_PERMISSIONS)


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0002_database_rules"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
