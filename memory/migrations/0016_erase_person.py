"""Let operators erase a person."""

from typing import Any

from django.db import migrations

from memory.groups import MEMORY_PERMISSIONS, grant_permissions


def grant(apps: Any, schema_editor: Any) -> None:
    grant_permissions(apps, "memory", MEMORY_PERMISSIONS)


class Migration(migrations.Migration):
    dependencies = [("memory", "0015_user_id_indexes")]
    operations = [
        migrations.AlterModelOptions(
            name="erasure",
            options={
                "ordering": ["-erased_at", "-id"],
                "permissions": [("erase_person", "Can find, export and erase what is stored about a person")],
            },
        ),
        migrations.RunPython(grant, migrations.RunPython.noop),
    ]
