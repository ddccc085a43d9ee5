"""What the memory needs done from time to time. The sweeper of the reflection app runs it."""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from django.contrib.sessions.models import Session
from django.db.models.functions import Now

from memory.api.idempotency import delete_expired_idempotency_records
from memory.curation.priority import prioritise_queue
from memory.index.heuristic_vectors import count_terms, embed_heuristics, find_heuristics_without_vectors
from memory.index.upkeep import fold_changes, name_lessons
from memory.mistakes.policy import keep_cards
from memory.retrieval.models import TermChange


class PeriodicWork(NamedTuple):
    """A function to call at most once in a period."""

    name: str
    every: timedelta
    run: Callable[[], object]


def embed_new_heuristics() -> None:
    """Make the vectors that are missing, some at a time."""
    if without_vectors := find_heuristics_without_vectors():
        embed_heuristics(without_vectors)


def count_new_terms() -> None:
    """Count the words of what came into service or left it since the last time."""
    for project_id in TermChange.objects.values_list("project_id", flat=True).distinct():
        count_terms(project_id)


def delete_ended_sessions() -> None:
    """Delete the sessions that have ended, which Django itself never does."""
    Session.objects.filter(expire_date__lt=Now()).delete()


_SOON, _MINUTE, _HOUR = timedelta(seconds=4), timedelta(minutes=1), timedelta(hours=1)

PERIODIC = (
    PeriodicWork("expired answers", _MINUTE, delete_expired_idempotency_records),
    PeriodicWork("missing vectors", _SOON, embed_new_heuristics),
    PeriodicWork("missing names", _SOON, name_lessons),
    PeriodicWork("mistake cards", _MINUTE, keep_cards),
    PeriodicWork("review queue", _SOON, prioritise_queue),
    PeriodicWork("changed terms", _SOON, count_new_terms),
    PeriodicWork("served changes", _SOON, fold_changes),
    PeriodicWork("ended sessions", _HOUR, delete_ended_sessions),
)
