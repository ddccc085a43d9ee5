"""A name for the present content of all static files, so that browsers may keep them for ever."""

import hashlib
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("django", "django-htmx", "drf-spectacular-sidecar")  # whose files are served too
_CHARS = 12


def hash_static_files(folder: Path) -> str:
    """Return a hash of our own files and of the versions of the packages with the others."""
    digest = hashlib.sha256(" ".join(version(name) for name in _PACKAGES).encode())
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:_CHARS]
