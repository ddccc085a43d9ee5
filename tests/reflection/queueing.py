"""Workers at once, and claims that ran out."""

import threading
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models.functions import Now

from memory.projects.actors import Actor
from reflection.jobs import queue
from reflection.reflectors.models import KIND, Reflection
from tests.factories import make_reflection

BY = Actor(label="key:test")
Status = Reflection.Status


def claim(reflection_id: UUID | None = None, *, owner: str, lease_seconds: float | None = None) -> Reflection | None:
    """Claim a reflection as a worker does."""
    return queue.claim(KIND, reflection_id, owner=owner, model=Reflection, lease_seconds=lease_seconds)


def expire_lease(reflection: Reflection) -> None:
    Reflection.objects.filter(pk=reflection.pk).update(lease_until=Now() - timedelta(seconds=1))


def in_threads(count: int, work: Any) -> list[Any]:
    """Run `work(number)` in threads that start together, each with a connection of its own."""
    results: list[Any] = [None] * count
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            start.wait(timeout=10)
            results[number] = work(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    return results


def claimed_twice() -> tuple[Reflection, Reflection]:
    """The claims of a worker that hung and of the one that took over."""
    first = claim(make_reflection().pk, owner="hung")
    assert first is not None
    expire_lease(first)
    second = claim(first.pk, owner="next")
    assert second is not None
    return first, second
