"""What a figure depends on besides its options."""

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
        "index": _hash(*(ROOT / place for place in _SEARCH)),
        "prompts": _hash(*(ROOT / place for place in _PROMPTS)),
        "data": _hash(_DATA),
        "django": get_version(),
    }


@lru_cache(maxsize=1)
def find_revision() -> str:
    """Return the commit of this checkout, marked where files differ from it; "unknown" without git."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def _hash(*places: Path) -> str:
    digest = hashlib.sha256()
    for place in places:
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]
