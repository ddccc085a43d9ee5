"""The groups people belong to, Reviewer, Auditor and Operator, and how migrations give them permissions."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.management import create_permissions

_VIEWED_BY_ALL = [
    f"view_{model}"
    for model in (
        "heuristic",
        "heuristicrevision",
        "mistakecard",
        "mistakecardreview",
        "mistakecardrevision",
        "mistakemerge",
        "mistakesighting",
        "polarityquota",
        "project",
        "retrieval",
        "review",
        "trajectory",
    )
]
_VIEWED_BY_CONTROL = ["view_auditentry", "view_erasure", "view_quarantineorder"]
MEMORY_PERMISSIONS: Mapping[str, Sequence[str]] = {
    "Auditor": [*_VIEWED_BY_ALL, *_VIEWED_BY_CONTROL],
    "Reviewer": [*_VIEWED_BY_ALL, "review_heuristic", "review_mistakecard"],
    "Operator": [
        *_VIEWED_BY_ALL,
        *_VIEWED_BY_CONTROL,
        "quarantine_source",
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
    """Give each group the permissions of an app that it lacks, and make missing groups. Nothing is taken away."""
    app = apps.get_app_config(app_label)
    stated = getattr(app, "models_module", None)
    app.models_module = True  # in a migration apps have none, and would get no permissions
    create_permissions(app, verbosity=0, apps=apps)
    app.models_module = stated
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label=app_label)
    for name, wanted in codenames.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        group.permissions.add(*permissions.filter(codename__in=wanted))
