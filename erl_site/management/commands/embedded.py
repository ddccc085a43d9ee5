"""Look at the embedded servers, or stop them."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from erl_site.embedded.home import EmbeddedServerError
from erl_site.quickstart.stack import embedded_servers


class Command(BaseCommand):
    help = (
        "Show whether the embedded PostgreSQL and Valkey run, start them, or stop them. They are started by whatever "
        "needs them first and go on running when it ends; the quickstart stops them when it is stopped."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["status", "start", "stop"])

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        servers = embedded_servers()
        if not servers:
            raise CommandError("DATABASE_URL and CELERY_BROKER_URL name other servers; none is embedded here.")
        for server in servers:
            try:
                if action == "start":
                    server.ensure()
                elif action == "stop":
                    server.stop()
            except EmbeddedServerError as error:
                raise CommandError(str(error)) from error
            self.stdout.write(f"{server.name:<11} {'running' if server.is_running() else 'stopped'}")
        self.stdout.write(f"Data and logs are in {settings.ERL_HOME}.")
