"""The folder of the embedded stack: its place, and the secret key kept in it."""

import os
import secrets
from pathlib import Path


def erl_home(value: str, base_dir: Path) -> Path:
    """Return the absolute home folder: `value`, or `.erl` beside manage.py."""
    return Path(value).expanduser().resolve() if value else base_dir / ".erl"


def secret_key(home: Path) -> str:
    """Return the key kept in `home`, making it the first time. Any number of processes may ask at once."""
    path = home / "secret_key"
    try:
        return path.read_text()
    except FileNotFoundError:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = home / f".secret_key.{os.getpid()}.{secrets.token_hex(4)}"
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_urlsafe(50))
    try:
        os.link(draft, path)  # fails where another process was first: then its key counts
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text()
