"""Reset the second factor of a user who has lost their phone and backup codes."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from erl_site.sign_in.second_factor import forget_devices


class Command(BaseCommand):
    help = "Remove a user's authenticator app and backup codes, so that they set up new ones at the next sign-in."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model()._default_manager.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['username']!r}. Check the name under Users in the admin.")
        count = forget_devices(user)
        self.stdout.write(
            f"{options['username']} no longer has a second factor ({count} device{pluralize(count)} removed)."
        )
