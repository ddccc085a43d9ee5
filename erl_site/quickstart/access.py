"""The quickstart's project, API key and admin user, which later runs reuse."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction

from memory.projects.actors import Actor
from memory.projects.api_keys import create_api_key, parse_token
from memory.projects.models import ApiKey, Project

PROJECT = "demo"
ADMIN_USER = "admin"
CLIENT = "quickstart"
FILE = "quickstart.json"


@dataclass(frozen=True, kw_only=True)
class Access:
    """Addresses and credentials, as `quickstart --json` prints and `quickstart.json` stores them."""

    base_url: str
    api_key: str
    admin_url: str
    admin_user: str
    admin_password: str
    project: str

    def as_json(self) -> str:
        """Return the object as JSON text."""
        return json.dumps(asdict(self), indent=2)


@dataclass(frozen=True, kw_only=True)
class PreparedAccess:
    """Access, and which credentials are new."""

    access: Access
    is_new_key: bool
    is_new_password: bool


@transaction.atomic
def prepare_access(*, site_url: str, home: Path) -> PreparedAccess:
    """Find or create the project, an API key with all scopes and a superuser.

    Credentials stored by an earlier run are kept if they still work.
    """
    credentials = read_access(home)
    project, _ = Project.objects.get_or_create(slug=PROJECT, defaults={"name": "Demo"})
    token = credentials.get("api_key", "")
    is_new_key = not _is_valid(token, project)
    if is_new_key:
        policy = Actor.policy("quickstart")
        token = create_api_key(project, client=CLIENT, scopes=ApiKey.Scope.values, by=policy).token
    password, is_new_password = _prepare_admin(credentials.get("admin_password", ""))
    access = Access(
        base_url=f"{site_url}/api/v1",
        api_key=token,
        admin_url=f"{site_url}/admin/",
        admin_user=ADMIN_USER,
        admin_password=password,
        project=project.slug,
    )
    return PreparedAccess(access=access, is_new_key=is_new_key, is_new_password=is_new_password)


def read_access(home: Path) -> dict[str, str]:
    """Return the texts that an earlier run stored; what is damaged is left out, and this run replaces it."""
    try:
        content = json.loads((home / FILE).read_text())
    except (OSError, ValueError):
        return {}
    texts = content if isinstance(content, dict) else {}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def write_access(access: Access, home: Path) -> Path:
    """Store it for later runs, readable only by its owner."""
    path, draft = home / FILE, home / f".{FILE}.{os.getpid()}"
    # Made with its mode, so that it is never open to others.
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(access.as_json() + "\n")
    draft.chmod(0o600)
    draft.replace(path)
    return path


def _is_valid(token: str, project: Project) -> bool:
    credential = parse_token(token)
    if credential is None:
        return False
    return (
        ApiKey.objects.usable()
        .filter(
            project=project,
            prefix=credential.prefix,
            secret_sha256=credential.secret_sha256,
            scopes__contains=ApiKey.Scope.values,
        )
        .exists()
    )


def _prepare_admin(known_password: str) -> tuple[str, bool]:
    """Return the password and whether it is new; "" if the user has set another one."""
    users = get_user_model()._default_manager
    user = users.filter(username=ADMIN_USER).first()
    if user is not None and user.check_password(known_password):
        return known_password, False
    # Keep a changed password. Replace one whose file is lost, but only in the embedded database.
    if user is not None and (known_password or settings.DATABASE_URL):
        return "", False
    password = secrets.token_urlsafe(12)
    if user is None:
        user = users.model(username=ADMIN_USER, is_staff=True, is_superuser=True)
    user.set_password(password)
    user.save()
    return password, True
