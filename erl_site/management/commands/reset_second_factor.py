"""Reset the second factor of a user who lost both phone and backup codes."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from erl_site.sign_in.second_factor import forget_devices


class Command(BaseCommand):
    help = "Forget a user's authenticator app and backup codes; they set it up again at the next sign-in."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model()._default_manager.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['username']!r}. Check the name under Users in the admin.")
        count = forget_devices(user)
        word = "device" if count == 1 else "devices"
        self.stdout.write(f"{options['username']} has no second factor any more ({count} {word} forgotten).")
