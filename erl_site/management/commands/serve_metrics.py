"""Give Prometheus its figures, at a port of its own."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from prometheus_client import CollectorRegistry, generate_latest, start_http_server

from erl_site.monitoring.metrics import DatabaseCollector


class Command(BaseCommand):
    help = (
        "Serve /metrics for Prometheus at a port of its own, away from the public listener. The figures come from the "
        "database, so one such process is enough for any number of web servers and workers."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: this machine)")
        parser.add_argument("--port", type=int, default=9464, help="the port to listen on")
        parser.add_argument("--once", action="store_true", help="print the figures and end")

    def handle(self, *args: Any, **options: Any) -> None:
        registry = CollectorRegistry()
        registry.register(DatabaseCollector())
        if options["once"]:
            self.stdout.write(generate_latest(registry).decode())
            return
        server, thread = start_http_server(options["port"], options["host"], registry=registry)
        self.stdout.write(f"Figures at http://{options['host']}:{server.server_port}/metrics")
        try:
            while thread.is_alive():
                time.sleep(1)
        finally:
            server.shutdown()
