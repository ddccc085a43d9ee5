"""What a release says: the wordings that are approved and how lessons are chosen among them, named by their hash."""

import hashlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.conf import settings

from memory.api.canonical import canonical_json
from memory.heuristics.models import HeuristicRevision
from memory.projects.models import Project
from memory.retrieval import ranking, scoring
from memory.retrieval.context import HEADER
from memory.retrieval.models import PolarityQuota
from memory.retrieval.record_block import HEADER as RECORD_HEADER
from memory.retrieval.record_block import TITLES

FORMAT = 1
_find_versions: list[Callable[[], dict[str, str]]] = []


def add_prompt_versions(find: Callable[[], dict[str, str]]) -> None:
    """Let releases name the versions of prompts that another app has."""
    _find_versions.append(find)


_find_parts: dict[str, Callable[[Project], dict[str, Any]]] = {}


def add_manifest_part(name: str, find: Callable[[Project], dict[str, Any]]) -> None:
    """Let manifests name what another app has. A part that is empty is left out."""
    _find_parts[name] = find


def build_manifest(project: Project) -> dict[str, Any]:
    """Return what is approved in a project now, with the settings that choose among it.

    It holds no text of a lesson: a wording is an immutable row, and its hash is here.
    """
    approved = HeuristicRevision.objects.for_project(project).served().order_by("heuristic_id", "id")
    lessons = [
        {"heuristic": str(heuristic), "revision": str(revision), "content_sha256": sha256}
        for heuristic, revision, sha256 in approved.values_list("heuristic_id", "id", "content_sha256")
    ]
    quotas = PolarityQuota.objects.filter(project=project).values_list("task_id", "max_works_share", "max_avoid_share")
    return {
        "format": FORMAT,
        "lessons": lessons,
        "retrieval": {
            "mode": settings.ERL_RETRIEVE_MODE,
            "top_k": settings.ERL_RETRIEVE_TOP_K,
            "context_budget_tokens": settings.ERL_CONTEXT_BUDGET_TOKENS,
            "constants_sha256": hash_constants(),
        },
        "quotas": {family: [works, avoid] for family, works, avoid in quotas},
        "prompts": {"lessons": HEADER, "record": RECORD_HEADER, "record_titles": TITLES},
        "prompt_versions": {name: version for find in _find_versions for name, version in find().items()},
        **{name: part for name, find in _find_parts.items() if (part := find(project))},
    }


def hash_manifest(manifest: dict[str, Any]) -> str:
    """Return the name of a release: the SHA-256 of its manifest as canonical JSON (RFC 8785)."""
    return hashlib.sha256(canonical_json(manifest)).hexdigest()


def hash_constants() -> str:
    """Return the hash of the numbers that scoring and ranking are made with, so that a change of them is seen."""
    numbers = {
        f"{module.__name__}.{name}": value
        for module in (scoring, ranking)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, int | float)
    }
    return hashlib.sha256(canonical_json(numbers)).hexdigest()


def index_lessons(manifest: dict[str, Any]) -> dict[UUID, tuple[UUID, str]]:
    """Return the revision and hash of every lesson of a manifest, by heuristic."""
    return {UUID(one["heuristic"]): (UUID(one["revision"]), one["content_sha256"]) for one in manifest["lessons"]}
