"""The database that runs are written down in: made ready on a bare machine, refused where it is behind the code."""

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from evaluation.errors import DatabaseBehind

EMBEDDED = "erl_site.embedded.database"


def prepare_database() -> bool:
    """Create the tables of an embedded database that is new; return whether that was done.

    Raises:
        DatabaseBehind: it has other tables than this code expects, or is a server of somebody's own and has none.
    """
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return False
    is_new = not executor.loader.applied_migrations
    if is_new and connection.settings_dict["ENGINE"] == EMBEDDED:
        call_command("migrate", verbosity=0, interactive=False)
        return True
    raise DatabaseBehind(
        f"The database {connection.settings_dict['NAME']} lacks {len(plan)} migrations of this code, so the run could "
        "not be written down. Nothing was changed. Run `uv run manage.py migrate` first."
    )
