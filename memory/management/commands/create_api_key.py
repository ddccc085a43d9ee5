"""Create an API key."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_slug
from django.db import transaction
from django.utils import timezone

from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from memory.projects.api_keys import AGENT_SCOPES, create_api_key
from memory.projects.models import ApiKey, Project


class Command(BaseCommand):
    help = (
        "Make an API key for an agent or tool and print it. It is shown once: only a hash of it is kept. "
        "Without --scope the key can do what an agent needs: send trajectories, ask for lessons, propose lessons and "
        "start reflections. It can decide nothing, and define and run no agents."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--project", required=True, metavar="SLUG", help="the project the key belongs to")
        parser.add_argument(
            "--client",
            required=True,
            metavar="NAME",
            help="who will use it, for example airline-agent; keys of one client share their idempotency keys",
        )
        parser.add_argument(
            "--scope",
            action="append",
            dest="scopes",
            choices=[*ApiKey.Scope.values, "all"],
            help="what the key may do; repeat it for several scopes, or say all (default: what an agent needs)",
        )
        parser.add_argument("--expires-days", type=int, metavar="N", help="expire the key after N days")
        parser.add_argument(
            "--by",
            metavar="USERNAME",
            help="the account that is responsible for the key; its decisions count as this person's, and it decides "
            "only what this person may; where two reviewers are required, a key without an account may not approve",
        )
        parser.add_argument("--create-project", action="store_true", help="create the project if it does not exist")
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        expires_days: int | None = options["expires_days"]
        if expires_days is not None and not 0 < expires_days <= 36_500:
            raise CommandError("Give --expires-days a whole number from 1 to 36,500.")
        if not options["client"].strip():
            raise CommandError("Give --client the name of the agent or tool, for example airline-agent.")
        # A default of argparse would be added to by `append`, not replaced.
        asked = options["scopes"] or list(AGENT_SCOPES)
        owner = _find_owner(options["by"])
        try:
            # A key that is refused leaves no empty project behind.
            with transaction.atomic():
                project = _find_project(options["project"], create=options["create_project"])
                new = create_api_key(
                    project,
                    client=options["client"].strip(),
                    scopes=ApiKey.Scope.values if "all" in asked else asked,
                    expires_at=timezone.now() + timedelta(days=expires_days) if expires_days else None,
                    by=Actor(
                        label="command:create_api_key" + (f" --by {owner.get_username()}" if owner else ""),
                        user_id=owner.pk if owner else None,
                    ),
                )
        except MemoryAppError as refusal:
            raise CommandError(f"{refusal} (--scope review in a project that requires two reviewers)") from refusal
        if new.request is not None:
            self.stderr.write(
                "It may not review yet: this project requires two reviewers, so another one has to confirm that in the "
                "admin, under Rule changes."
            )
        key = new.api_key
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "api_key": new.token,
                        "id": str(key.pk),
                        "prefix": key.prefix,
                        "project": project.slug,
                        "client": key.client,
                        "scopes": key.scopes,
                        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
                    }
                )
            )
            return
        until = f"until {key.expires_at:%Y-%m-%d %H:%M} UTC" if key.expires_at else "until it is revoked"
        self.stdout.write(
            f"{new.token}\n\nStore it now; it is not shown again. {key.client} may use it in {project.slug} {until}, "
            f"for: {', '.join(key.scopes)}.\nSend it as  Authorization: Bearer {new.token[:18]}…"
        )


def _find_owner(username: str | None) -> Any:
    if username is None:
        return None
    owner = get_user_model()._default_manager.filter(username=username, is_active=True).first()
    if owner is None:
        raise CommandError(
            f"There is no active account {username!r}, so no key was made. Give --by the name the person signs in with."
        )
    return owner


def _find_project(slug: str, *, create: bool) -> Project:
    project = Project.objects.filter(slug=slug).first()
    if project is not None:
        return project
    if not create:
        slugs = ", ".join(Project.objects.values_list("slug", flat=True)[:20]) or "none yet"
        raise CommandError(f"There is no project {slug!r} (known: {slugs}). Add --create-project to make it.")
    try:
        validate_slug(slug)
    except ValidationError as error:
        raise CommandError("A project's name may have letters, digits, hyphens and underscores only.") from error
    return Project.objects.create(slug=slug, name=slug)
