"""Write each app's `0001_initial.py` again from the models: `python -m tests.fresh_migrations`.

For the time before 1.0, while tables may be made again; afterwards `makemigrations` adds to what is there. Each app's
operations are applied as one (`CreateTables`), so that a new database takes a third of the time.
"""

import os
from pathlib import Path

import django
from django.apps import apps
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.graph import MigrationGraph
from django.db.migrations.questioner import MigrationQuestioner
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import MigrationWriter

from memory.sql.create_tables import CreateTables

APPS = {"memory", "reflection", "agents", "evaluation"}


def write_migrations() -> None:
    """Write the files and print their names."""
    questioner = MigrationQuestioner(specified_apps=APPS)
    detector = MigrationAutodetector(ProjectState(), ProjectState.from_apps(apps), questioner)
    changes = detector.changes(graph=MigrationGraph(), trim_to_apps=APPS)
    for app in sorted(APPS):
        (migration,) = changes[app]
        if app == "memory":
            migration.dependencies = [("memory", "0000_extensions")]  # type: ignore[misc]
        migration.operations = [CreateTables(migration.operations)]  # type: ignore[misc]
        writer = MigrationWriter(migration)
        Path(writer.path).write_text(writer.as_string())
        print(writer.path)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
    django.setup()
    write_migrations()
