"""Django's PostgreSQL backend, starting the embedded server at the first connection."""

from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base

from erl_site.embedded import postgres
from erl_site.embedded.home import EmbeddedServerError


class DatabaseWrapper(base.DatabaseWrapper):
    """Connects to the embedded server; where it does not run, starts or recovers it and connects once more.

    Nothing happens before the first query: commands that need no database start no server.
    """

    def get_connection_params(self) -> dict[str, Any]:
        self.settings_dict["HOST"] = str(postgres.socket_dir(settings.ERL_HOME / "postgres"))
        self.settings_dict["PORT"] = str(postgres.PORT)
        return super().get_connection_params()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        try:
            return super().get_new_connection(conn_params)
        except psycopg.OperationalError:
            try:
                postgres.ensure(settings.ERL_HOME / "postgres", durable=settings.ERL_EMBEDDED_DURABLE)
            except EmbeddedServerError as error:
                raise psycopg.OperationalError(str(error)) from error
            return super().get_new_connection(conn_params)
