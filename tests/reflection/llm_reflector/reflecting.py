"""Reflect as the settings say."""

from uuid import UUID

from memory.runs.episode import Episode
from reflection.reflectors.base import NearHeuristic, ReflectionResult
from reflection.reflectors.reflections import get_reflector
from tests.reflection.episodes import make_episode

NEAR = NearHeuristic(
    id=UUID("0198c0de-0000-7000-8000-000000000001"),
    trigger="When a fare is basic economy",
    guideline="Read the cabin with get_reservation_details first.",
    similarity=0.9,
)


def reflect(episode: Episode | None = None, *, near: tuple[NearHeuristic, ...] = ()) -> ReflectionResult:
    return get_reflector().reflect(episode or make_episode(), near=near)
