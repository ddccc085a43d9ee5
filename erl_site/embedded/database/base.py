"""Django's PostgreSQL backend, starting the embedded server at the first connection."""

from typing import Any

from django.conf import settings
from django.db.backends.postgresql import base

from erl_site.embedded import postgres


class DatabaseWrapper(base.DatabaseWrapper):
    """Connects to the embedded server; starts or recovers it where it does not run."""

    def get_connection_params(self) -> dict[str, Any]:
        self.settings_dict["HOST"] = str(postgres.socket_dir(settings.ERL_HOME / "postgres"))
        return super().get_connection_params()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        try:
            return super().get_new_connection(conn_params)
        except self.Database.OperationalError:
            postgres.ensure(settings.ERL_HOME / "postgres", durable=settings.ERL_EMBEDDED_DURABLE)
            return super().get_new_connection(conn_params)
