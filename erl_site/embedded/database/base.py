"""Django's PostgreSQL backend; starts the embedded server at the first connection."""

from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base

from erl_site.embedded import postgres
from erl_site.embedded.home import EmbeddedServerError


class DatabaseWrapper(base.DatabaseWrapper):
    """Connects to the embedded server, starting or recovering it if it is not running.

    Commands that do not use the database do not start it.
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
