"""Who sees consolidations and their suggestions, and who may ask for one."""

from typing import Any

from django.db import migrations

VIEW = [
    ("consolidationrun", "view_consolidationrun", "Can view consolidation"),
    ("suggestion", "view_suggestion", "Can view suggestion"),
]
ASK = ("consolidationrun", "consolidate_project", "Can ask for a consolidation")


def extend_groups(apps: Any, schema_editor: Any) -> None:
    """Give the groups what they lack. Nobody loses a permission."""
    for name, wanted in (("Auditor", VIEW), ("Reviewer", VIEW), ("Operator", [*VIEW, ASK])):
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        for model, codename, label in wanted:
            # Django makes these rows only after all migrations have run; it keeps those it finds.
            kinds = apps.get_model("contenttypes", "ContentType").objects
            kind, _ = kinds.get_or_create(app_label="reflection", model=model)
            permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
                content_type=kind, codename=codename, defaults={"name": label}
            )
            group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("reflection", "0005_provider_state"),
        ("memory", "0006_groups"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(extend_groups, migrations.RunPython.noop)]
