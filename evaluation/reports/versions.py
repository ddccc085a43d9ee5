"""The versions that a figure depends on, besides its options."""

import hashlib
import subprocess
from functools import lru_cache
from pathlib import Path

from django import get_version
from django.conf import settings

from memory.embeddings.registry import get_embedder

ROOT = Path(__file__).resolve().parents[2]
_DATA = ROOT / "evaluation" / "data"
_SEARCH = ("memory/index", "memory/retrieval", "memory/sql")
_PROMPTS = ("reflection/prompts",)


def find_versions() -> dict[str, str]:
    """Return the versions of code, embedder, index, prompts and data."""
    embedder = get_embedder()
    return {
        "git_revision": find_revision(),
        "embedder": embedder.model_id if embedder else "none",
        "index": _hash(*(ROOT / path for path in _SEARCH)),
        "prompts": _hash(*(ROOT / path for path in _PROMPTS)),
        "data": _hash(_DATA),
        "django": get_version(),
    }


@lru_cache(maxsize=1)
def find_revision() -> str:
    """Return the commit of this checkout, marked if files have changed; "unknown" without git."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def _hash(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]
