"""Replace an API key."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.projects.actors import Actor
from memory.projects.api_keys import rotate_api_key
from memory.projects.models import ApiKey


class Command(BaseCommand):
    help = (
        "Make a second key with the rights of an existing one, print it once, and let the old one expire after a "
        "while, so that the agent can switch over without a gap."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prefix", help="the eight characters after erl_live_ of the key to replace")
        parser.add_argument(
            "--overlap-hours", type=float, default=24, metavar="N", help="how long the old key keeps working (24)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 <= options["overlap_hours"] <= 8760:
            raise CommandError("Give --overlap-hours a number from 0 to 8760.")
        old = ApiKey.objects.usable().select_related("project").filter(prefix=options["prefix"]).first()
        if old is None:
            raise CommandError(f"No active key starts with erl_live_{options['prefix']}. Make one with create_api_key.")
        overlap = timedelta(hours=options["overlap_hours"])
        new = rotate_api_key(old, overlap=overlap, by=Actor(label="command:rotate_api_key"))
        self.stdout.write(
            f"{new.token}\n\nStore it now; it is not shown again. The old key of {old.client} ends in "
            f"{options['overlap_hours']:g} hours."
        )
