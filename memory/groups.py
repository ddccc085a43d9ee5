"""The user groups Reviewer, Auditor and Operator, and their permissions, which migrations grant."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.management import create_permissions

_VIEWED_BY_ALL = [
    f"view_{model}"
    for model in (
        "block",
        "blockrevision",
        "heuristic",
        "heuristicrevision",
        "mistakecard",
        "passage",
        "polarityquota",
        "deployment",
        "deploymentevent",
        "project",
        "release",
        "retrieval",
        "review",
        "rulechange",
        "trajectory",
    )
]
_VIEWED_BY_CONTROL = ["view_auditentry", "view_erasure", "view_quarantineorder"]
MEMORY_PERMISSIONS: Mapping[str, Sequence[str]] = {
    "Auditor": [*_VIEWED_BY_ALL, *_VIEWED_BY_CONTROL],
    "Reviewer": [*_VIEWED_BY_ALL, "review_heuristic", "review_mistakecard", "review_block", "deploy_release"],
    "Operator": [
        *_VIEWED_BY_ALL,
        *_VIEWED_BY_CONTROL,
        "quarantine_source",
        "erase_person",
        "deploy_release",
        "view_apikey",
        "change_apikey",
        "add_project",
        "change_project",
        "add_polarityquota",
        "change_polarityquota",
        "delete_polarityquota",
    ],
}


def grant_permissions(apps: Any, app_label: str, codenames: Mapping[str, Sequence[str]]) -> None:
    """Create missing groups and grant them the permissions of an app. Nothing is revoked."""
    app = apps.get_app_config(app_label)
    models_module = getattr(app, "models_module", None)
    app.models_module = True  # apps in migrations have none, and would get no permissions
    create_permissions(app, verbosity=0, apps=apps)
    app.models_module = models_module
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label=app_label)
    for name, names in codenames.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        group.permissions.add(*permissions.filter(codename__in=names))
