"""Periodic work: what has to be done from time to time (reliability B7, B12).

Apps register what they need done when they are ready. Every sweep runs what is due; a row in the database remembers
when each piece was last begun, so that it is begun once a period however many workers sweep.
"""

from collections.abc import Iterable

from django.db import connection

from memory.failpoints import failpoint
from memory.housekeeping import PeriodicWork

_BEGIN = """
INSERT INTO reflection_periodicrun AS last (name, started_at) VALUES (%s, statement_timestamp())
ON CONFLICT (name) DO UPDATE SET started_at = EXCLUDED.started_at
    WHERE last.started_at <= EXCLUDED.started_at - make_interval(secs => %s)
"""
_registered: dict[str, PeriodicWork] = {}


def register_periodic(*work: PeriodicWork) -> None:
    """Let the sweeps run some work."""
    _registered.update({each.name: each for each in work})


def run_due_work() -> None:
    """Run what is due. A failure ends this sweep; the next one goes on with the rest."""
    _run(each for each in _registered.values() if _begin(each))


def run_all_work() -> None:
    """Run everything, due or not."""
    _run(_registered.values())


def _begin(work: PeriodicWork) -> bool:
    """Note that a piece of work begins; False where it was begun less than its period ago."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN, [work.name, work.every.total_seconds()])
        return bool(cursor.rowcount)


def _run(work: Iterable[PeriodicWork]) -> None:
    for each in work:
        failpoint("sweep.housekeeping")
        each.run()
