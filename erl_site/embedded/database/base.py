"""Django's PostgreSQL backend; starts the embedded server at the first connection."""

from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base

from erl_site.embedded import postgres
from erl_site.embedded.home import EmbeddedServerError
from erl_site.embedded.recovery import Recovery

PATIENCE_SECONDS = 3.0  # of requests, for a server that was killed


def _start() -> None:
    postgres.ensure(settings.ERL_HOME / "postgres", durable=settings.ERL_EMBEDDED_DURABLE)


recovery = Recovery(_start, patience_seconds=PATIENCE_SECONDS)


class DatabaseWrapper(base.DatabaseWrapper):
    """Connects to the embedded server, starting or recovering it if it is not running.

    Commands that do not use the database do not start it. Where statements have a time limit, as in web processes, so
    has the start; others wait for as long as it takes.
    """

    def get_connection_params(self) -> dict[str, Any]:
        self.settings_dict["HOST"] = str(postgres.socket_dir(settings.ERL_HOME / "postgres"))
        self.settings_dict["PORT"] = str(postgres.PORT)
        return super().get_connection_params()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        try:
            return super().get_new_connection(conn_params)
        except psycopg.OperationalError:
            if settings.ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS:
                recovery.wait()
            else:
                try:
                    _start()
                except EmbeddedServerError as error:
                    raise psycopg.OperationalError(str(error)) from error
            return super().get_new_connection(conn_params)
