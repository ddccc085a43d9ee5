"""Show, start or stop the embedded servers."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from erl_site.embedded.home import EmbeddedServerError
from erl_site.quickstart.stack import embedded_servers


class Command(BaseCommand):
    help = (
        "Show whether the embedded PostgreSQL and Valkey are running, start them, or stop them. The first process that "
        "needs them starts them, and they keep running when it ends. The quickstart stops them when it stops."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["status", "start", "stop"])

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        servers = embedded_servers()
        if not servers:
            raise CommandError(
                "DATABASE_URL and CELERY_BROKER_URL name external servers, so there are no embedded ones."
            )
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
