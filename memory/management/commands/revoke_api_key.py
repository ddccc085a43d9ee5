"""Revoke an API key."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memory.projects.actors import Actor
from memory.projects.api_keys import revoke_api_key
from memory.projects.models import ApiKey


class Command(BaseCommand):
    help = "Revoke an API key for good. Running servers notice within seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prefix", help="the eight characters after erl_live_ of the key to revoke")

    def handle(self, *args: Any, **options: Any) -> None:
        api_key = ApiKey.objects.filter(prefix=options["prefix"]).first()
        if api_key is None:
            raise CommandError(f"No key starts with erl_live_{options['prefix']}. Check the prefix in the admin.")
        if not revoke_api_key(api_key, by=Actor(label="command:revoke_api_key")):
            raise CommandError(f"This key of {api_key.client} was already revoked, on {api_key.revoked_at:%Y-%m-%d}.")
        seconds = f"{settings.ERL_API_KEY_CACHE_SECONDS:g} seconds"
        self.stdout.write(f"Revoked the key of {api_key.client}. It stops working within {seconds}.")
