"""Write each app's `0001_initial.py` again from the models: `python -m tests.fresh_migrations`.

For the time before 1.0, while tables may be made again; afterwards `makemigrations` adds to what is there.
`makemigrations` alone writes a file of more than a thousand lines that cannot be applied: it takes any index or
constraint to refer to every model, so it moves no foreign key into its table, and the composite primary key of
`TermCount` comes before the column it needs.
"""

import os
from pathlib import Path
from typing import Any

import django
from django.apps import apps
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.graph import MigrationGraph
from django.db.migrations.operations.models import IndexOperation
from django.db.migrations.questioner import MigrationQuestioner
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import MigrationWriter

APPS = {"memory", "reflection", "agents", "evaluation"}


def write_migrations() -> None:
    """Write the files and print their names."""

    def concerns(operation: Any, name: str, app_label: str) -> bool:
        return bool(name.lower() == operation.model_name_lower)

    IndexOperation.references_model = concerns  # type: ignore[assignment,method-assign]
    questioner = MigrationQuestioner(specified_apps=APPS)
    detector = MigrationAutodetector(ProjectState(), ProjectState.from_apps(apps), questioner)
    changes = detector.changes(graph=MigrationGraph(), trim_to_apps=APPS)
    for app in sorted(APPS):
        (migration,) = changes[app]
        if app == "memory":
            migration.dependencies = [("memory", "0000_extensions"), *migration.dependencies]  # type: ignore[misc]
        writer = MigrationWriter(migration)
        Path(writer.path).write_text(writer.as_string())
        print(writer.path)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
    django.setup()
    write_migrations()
