"""PostgreSQL's programs and management commands, run on a database for a drill."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from django.conf import settings
from django.db import connection

from erl_site.embedded.accounts import find_binaries
from erl_site.embedded.errors import EmbeddedServerError


class DrillError(Exception):
    """The drill cannot run; the text says why."""


def find_program(name: str) -> str:
    """Return the path of one of PostgreSQL's programs; the embedded ones come first.

    Raises:
        DrillError: it is not installed.
    """
    try:
        return str(find_binaries() / name)
    except EmbeddedServerError:
        found = shutil.which(name)
        if found is None:
            raise DrillError(
                f"{name} is missing. Install PostgreSQL's client programs of the server's version."
            ) from None
        return found


def run_program(*command: str) -> str:
    """Run one of PostgreSQL's programs and return its output.

    Raises:
        DrillError: it failed; the text has its output.
    """
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}, check=False)
    if ended.returncode:
        raise DrillError(f"{Path(command[0]).name} failed: {ended.stderr.strip()[-2000:]}")
    return ended.stdout


def manage(url: str, command: str, *arguments: str) -> str:
    """Run a management command on another database; return its output if it failed."""
    program = [sys.executable, str(settings.BASE_DIR / "manage.py"), command, *arguments]
    environment = os.environ | {"DATABASE_URL": url, "ERL_LOG_LEVEL": "ERROR"}
    ended = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    return (ended.stdout + ended.stderr).strip()[-2000:] if ended.returncode else ""


def write_url(name: str) -> str:
    """Return the URL of a database of the server that is in use."""
    connection.ensure_connection()  # starts the embedded server and fills in its address
    place = connection.settings_dict
    user, password = quote(place["USER"], safe=""), quote(place["PASSWORD"] or "", safe="")
    who = f"{user}:{password}" if password else user
    host, port = str(place["HOST"] or "localhost"), str(place["PORT"] or 5432)
    if host.startswith("/"):
        return f"postgresql://{who}@/{name}?host={quote(host, safe='')}&port={port}"
    return f"postgresql://{who}@{host}:{port}/{name}"
