"""Serve metrics for Prometheus on a separate port."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from prometheus_client import CollectorRegistry, generate_latest, start_http_server

from erl_site.monitoring.metrics import DatabaseCollector
from memory.management.options import number_up_to


class Command(BaseCommand):
    help = (
        "Serve /metrics for Prometheus on a separate port, away from the public one. The metrics come from the "
        "database, so one such process is enough for any number of web servers and workers."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on, default 127.0.0.1")
        parser.add_argument("--port", type=number_up_to(65_535), default=9464, help="port to listen on, default 9464")
        parser.add_argument("--once", action="store_true", help="print the metrics and exit")

    def handle(self, *args: Any, **options: Any) -> None:
        registry = CollectorRegistry()
        registry.register(DatabaseCollector())
        if options["once"]:
            self.stdout.write(generate_latest(registry).decode())
            return
        try:
            server, thread = start_http_server(options["port"], options["host"], registry=registry)
        except OSError as error:
            raise CommandError(
                f"{options['host']}:{options['port']} cannot be used: {error.strerror}. Choose another with --port."
            ) from error
        self.stdout.write(f"Serving metrics at http://{options['host']}:{server.server_port}/metrics")
        try:
            while thread.is_alive():
                time.sleep(1)
        finally:
            server.shutdown()
