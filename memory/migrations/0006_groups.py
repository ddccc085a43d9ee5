"""The three groups people belong to: who decides, who looks on, who runs the machinery."""

from typing import Any

from django.db import migrations

VIEWED = {
    ("memory", "heuristic"): "heuristic",
    ("memory", "heuristicrevision"): "heuristic revision",
    ("memory", "trajectory"): "trajectory",
    ("memory", "retrieval"): "retrieval",
    ("memory", "review"): "review",
    ("memory", "project"): "project",
    ("reflection", "reflection"): "reflection",
    ("reflection", "dailyspend"): "daily spend",
}
REVIEW = ("memory", "heuristic", "review_heuristic", "Can approve, reject, retire and quarantine heuristics")
REQUEUE = ("reflection", "reflection", "requeue_reflection", "Can queue reflections again")
OPERATE = [
    REQUEUE,
    ("memory", "apikey", "view_apikey", "Can view API key"),
    ("memory", "apikey", "change_apikey", "Can change API key"),
    ("memory", "project", "add_project", "Can add project"),
    ("memory", "project", "change_project", "Can change project"),
    ("reflection", "modelcall", "view_modelcall", "Can view model call"),
]


def make_groups(apps: Any, schema_editor: Any) -> None:
    """Make the groups, or give those that exist what they lack. Nobody loses a permission."""
    viewing = [(app, model, f"view_{model}", f"Can view {name}") for (app, model), name in VIEWED.items()]
    _fill(apps, "Auditor", viewing)
    _fill(apps, "Reviewer", [*viewing, REVIEW])
    _fill(apps, "Operator", [*viewing, *OPERATE])


def _fill(apps: Any, group_name: str, wanted: list[tuple[str, str, str, str]]) -> None:
    group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=group_name)
    for app, model, codename, name in wanted:
        # Django makes these rows only after all migrations have run; it keeps those it finds.
        kind, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(app_label=app, model=model)
        permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
            content_type=kind, codename=codename, defaults={"name": name}
        )
        group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0005_review_undo"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
