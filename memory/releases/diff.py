"""What differs between two releases, in words that a person can read."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from memory.heuristics.models import HeuristicRevision
from memory.releases.manifest import index_lessons
from memory.releases.models import Release


@dataclass(frozen=True, kw_only=True, slots=True)
class LessonChange:
    """A lesson that was added, removed or reworded; its wording is None on the side that lacks it or was erased."""

    heuristic_id: UUID
    before: HeuristicRevision | None = None
    after: HeuristicRevision | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseDiff:
    """The way from one release to another. `settings` are (name, before, after)."""

    added: list[LessonChange] = field(default_factory=list)
    removed: list[LessonChange] = field(default_factory=list)
    reworded: list[LessonChange] = field(default_factory=list)
    settings: list[tuple[str, Any, Any]] = field(default_factory=list)
    unchanged: int = 0


def diff_releases(before: Release, after: Release) -> ReleaseDiff:
    """Compare two releases. One query, for the wordings."""
    old, new = index_lessons(before.manifest), index_lessons(after.manifest)
    changed = [id for id in {**old, **new} if old.get(id) != new.get(id)]
    ids = {side[id][0] for id in changed for side in (old, new) if id in side}
    words = {wording.pk: wording for wording in HeuristicRevision.objects.filter(project=before.project_id, pk__in=ids)}
    diff = ReleaseDiff(unchanged=len(old.keys() & new.keys()) - sum(id in old and id in new for id in changed))
    for id in sorted(changed):
        change = LessonChange(
            heuristic_id=id,
            before=words.get(old[id][0]) if id in old else None,
            after=words.get(new[id][0]) if id in new else None,
        )
        (diff.added if id not in old else diff.removed if id not in new else diff.reworded).append(change)
    was, now = _flatten(before.manifest), _flatten(after.manifest)
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            diff.settings.append((name, was.get(name), now.get(name)))
    return diff


def _flatten(manifest: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{part}.{name}" if name else part: value
        for part in ("retrieval", "quotas", "prompts", "prompt_versions", "agents")
        for name, value in manifest.get(part, {}).items()
    }
