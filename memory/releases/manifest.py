"""What a release says: the wordings that are approved and how lessons are chosen among them, named by their hash."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.conf import settings

from memory.api.canonical import canonical_json
from memory.heuristics.models import HeuristicRevision
from memory.limits import DEFAULT_BUDGET_TOKENS, DEFAULT_TOP_K
from memory.projects.models import Project
from memory.releases.models import Deployment, Release
from memory.retrieval import ranking, scoring
from memory.retrieval.context import HEADER
from memory.retrieval.models import PolarityQuota
from memory.retrieval.record_block import HEADER as RECORD_HEADER
from memory.retrieval.record_block import TITLES

FORMAT = 1
TUNED = "tuned"  # the part with settings of retrieval that a change of an agent made, in place of those of the server
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
    # Settings that a change of an agent made must outlive the next cut.
    tuned = _find_stable(project).get(TUNED, {})
    approved = HeuristicRevision.objects.of_lessons().for_project(project).served().order_by("heuristic_id", "id")
    quotas = PolarityQuota.objects.filter(project=project).values_list("task_id", "max_works_share", "max_avoid_share")
    return {
        "format": FORMAT,
        "lessons": [_name(*wording) for wording in approved.values_list("heuristic_id", "id", "content_sha256")],
        "retrieval": {**_read_settings(), "constants_sha256": hash_constants(), **tuned},
        "quotas": {family: [works, avoid] for family, works, avoid in quotas},
        "prompts": {"lessons": HEADER, "record": RECORD_HEADER, "record_titles": TITLES},
        "prompt_versions": {name: version for find in _find_versions for name, version in find().items()},
        **({TUNED: tuned} if tuned else {}),
        **{name: part for name, find in _find_parts.items() if (part := find(project))},
    }


def add_lessons(listed: list[dict[str, str]], lessons: Iterable[HeuristicRevision]) -> list[dict[str, str]]:
    """Return the lessons of a manifest with others, each in one wording, in the order of their ids."""
    by_heuristic = {entry["heuristic"]: entry for entry in listed}
    by_heuristic |= {
        str(lesson.heuristic_id): _name(lesson.heuristic_id, lesson.pk, lesson.content_sha256) for lesson in lessons
    }
    return [by_heuristic[heuristic] for heuristic in sorted(by_heuristic)]


def tune(retrieval: Mapping[str, int]) -> dict[str, Mapping[str, int]]:
    """Return the parts of a manifest that change how lessons are chosen. Releases that are cut later keep it."""
    return {"retrieval": retrieval, TUNED: retrieval}


def find_retrieval(project: Project) -> dict[str, Any]:
    """Return how lessons are chosen in a project now: as its stable release says, else as the settings say."""
    stable = _find_stable(project)
    return stable["retrieval"] if stable else _read_settings()


def hash_manifest(manifest: dict[str, Any]) -> str:
    """Return the name of a release: the SHA-256 of its manifest as canonical JSON (RFC 8785)."""
    return hashlib.sha256(canonical_json(manifest)).hexdigest()


def hash_constants() -> str:
    """Return the hash of the numbers that scoring and ranking are made with, so that a change of them is seen."""
    numbers = {
        # With its name, so that a constant that is added or renamed counts as a change too.
        f"{module.__name__}.{name}": value
        for module in (scoring, ranking)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, int | float)
    }
    return hashlib.sha256(canonical_json(numbers)).hexdigest()


def index_lessons(manifest: dict[str, Any]) -> dict[UUID, tuple[UUID, str]]:
    """Return the revision and hash of every lesson of a manifest, by heuristic."""
    return {
        UUID(entry["heuristic"]): (UUID(entry["revision"]), entry["content_sha256"]) for entry in manifest["lessons"]
    }


def _name(heuristic: UUID, revision: UUID, sha256: str) -> dict[str, str]:
    return {"heuristic": str(heuristic), "revision": str(revision), "content_sha256": sha256}


def _read_settings() -> dict[str, Any]:
    return {
        "mode": settings.ERL_RETRIEVE_MODE,
        "top_k": DEFAULT_TOP_K,
        "context_budget_tokens": DEFAULT_BUDGET_TOKENS,
    }


def _find_stable(project: Project) -> dict[str, Any]:
    """Return the manifest of the stable release; empty where there is none."""
    manifests = Release.objects.filter(pk__in=Deployment.objects.filter(project=project).values("stable"))
    return manifests.values_list("manifest", flat=True).first() or {}
