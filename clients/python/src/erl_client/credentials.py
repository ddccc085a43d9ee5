"""Which ERL to use, and the file that only its owner can read in which `erl login` stored address and key."""

import json
import os
import sys
from pathlib import Path

from erl_client.api import Destination

DEFAULT_URL = "http://127.0.0.1:8000"


def credentials_file() -> Path:
    """Return the file, which may not exist."""
    if sys.platform == "win32":
        root = Path(os.environ.get("APPDATA") or Path.home())
    else:
        root = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return root / "erl" / "credentials.json"


def find_destination(url: str = "", api_key: str = "") -> Destination:
    """Return where to send to: what is given, or else `ERL_URL` and `ERL_API_KEY`, or else what `erl login` stored."""
    stored = read_credentials()
    given_key = api_key or os.environ.get("ERL_API_KEY", "")
    return Destination(
        url=(url or os.environ.get("ERL_URL", "") or stored.get("url", "") or DEFAULT_URL).rstrip("/"),
        api_key=(given_key or stored.get("api_key", "")).strip(),
    )


def read_credentials() -> dict[str, str]:
    """Return `url` and `api_key` as far as they are stored."""
    try:
        stored = json.loads(credentials_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no home folder
        return {}
    return {str(name): str(value) for name, value in stored.items()} if isinstance(stored, dict) else {}


def write_credentials(*, url: str, api_key: str) -> Path:
    """Store them and return the file."""
    file = credentials_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        json.dump({"url": url, "api_key": api_key}, stream)
    unfinished.replace(file)
    return file
