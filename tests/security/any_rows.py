"""A row of every table that belongs to a project, made from the models, so that a new table is covered unasked."""

import uuid
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models

from memory.projects.models import Project

APPS = ("memory", "reflection", "agents", "evaluation")
# Tables of nobody in particular, and why they hold nothing of a project.
SHARED = {
    "memory_embeddingmodel": "names of models",
    "memory_savedfilter": "addresses within the admin, of accounts",
    "reflection_providerstate": "whether a provider answers",
    "reflection_workerheartbeat": "signs of life of workers",
}
SHA256 = "0" * 64
_BY_TYPE: dict[str, Any] = {
    "ArrayField": [],
    "BinaryField": b"x",
    "BooleanField": False,
    "DateField": "2026-01-01",
    "DateTimeField": "2099-01-01T00:00:00Z",
    "DecimalField": 0,
    "FloatField": 0.5,
    "HalfVectorField": [0.5],
    "JSONField": {},
    "TextField": "x",
    "UUIDField": uuid.UUID(int=1),
}


def all_models() -> Iterator[type[models.Model]]:
    """Every model of ours with a table of its own."""
    for app in APPS:
        yield from (model for model in apps.get_app_config(app).get_models() if not model._meta.proxy)


def project_tables() -> list[type[models.Model]]:
    """Every model whose rows belong to a project, or to something that does."""
    return [model for model in all_models() if model._meta.db_table not in SHARED]


def fill(project: Project, *, user_id: int) -> None:
    """Put a row of this project into every table, without regard to what it refers to."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        made: dict[str, Any] = {"memory_project": project.pk}
        for model in project_tables():
            if model is not Project:
                row = model(**values_of(model, made, project_id=project.pk, user_id=user_id))
                row.save_base(raw=True, force_insert=True)  # raw: only this table, where a model extends another
                made[model._meta.db_table] = row.pk
        cursor.execute("SET LOCAL session_replication_role = origin")


def values_of(model: type[models.Model], made: dict[str, Any], *, project_id: Any, user_id: int) -> dict[str, Any]:
    """Return a value for each column of a model; `made` has the keys of rows there are, by their tables."""
    values: dict[str, Any] = {}
    for field in model._meta.local_concrete_fields:
        if field.column == "project_id":
            values[field.attname] = project_id
        elif isinstance(field, models.AutoField | models.GeneratedField):
            continue
        elif field.is_relation:
            related: Any = field.related_model
            shared = user_id if related._meta.label == "auth.User" else "m"
            values[field.attname] = None if field.null else made.get(related._meta.db_table, _missing(related, shared))
        elif field.has_default():
            values[field.attname] = field.get_default()
        elif field.unique and isinstance(field, models.CharField | models.TextField):
            values[field.attname] = project_id.hex[::-1][: field.max_length]
        elif field.null:
            values[field.attname] = None
        elif field.choices:
            values[field.attname] = next(iter(field.choices))[0]
        elif field.max_length and not isinstance(field, models.BinaryField):
            values[field.attname] = SHA256[: field.max_length]
        else:
            values[field.attname] = _BY_TYPE.get(field.get_internal_type(), 1)
    return values | _EXCEPT.get(model._meta.db_table, {})


def _missing(model: Any, shared: Any) -> Any:
    key = model._meta.pk
    if key.is_relation:  # a model that extends another
        key = key.target_field
    if isinstance(key, models.AutoField) and model._meta.label != "auth.User":
        return 1
    return _BY_TYPE["UUIDField"] if isinstance(key, models.UUIDField) else shared


_EXCEPT: dict[str, dict[str, Any]] = {
    "agents_change": {"target_id": uuid.UUID(int=2)},  # other than its base
    "agents_toolrevision": {"source": "x"},
    "evaluation_experiment": {"compared": "memory"},  # the one that needs no releases
    "agents_evaluationrow": {"at": "2026-01-01T00:00:00Z"},  # of an evolution, which has a time
    "memory_apikey": {"scopes": ["retrieve"]},
}
