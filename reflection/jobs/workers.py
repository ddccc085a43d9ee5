"""The name a worker writes on the jobs it holds, and its heartbeats in the database.

The name is `name@host/process of the worker`; a claim adds `/process that works`.
"""

import os
import socket
from datetime import timedelta

from django.db.models import Exists
from django.db.models.functions import Now

from reflection.jobs.models import WorkerHeartbeat

HEARTBEAT_KEPT = timedelta(days=1)
_worker = ""


def name_worker(nodename: str) -> str:
    """Name this process as a worker; the processes it starts from now on inherit the name. Return it."""
    global _worker
    _worker = f"{nodename}/{os.getpid()}"
    return _worker


def worker_name() -> str:
    """Return the worker this process belongs to, or the process itself where it belongs to none."""
    return _worker or f"{socket.gethostname()}/{os.getpid()}"


def owner_name() -> str:
    """Return the name under which this process claims jobs."""
    return f"{worker_name()}/{os.getpid()}"


def record_heartbeat(worker: str) -> None:
    """Note that a worker is alive."""
    _record(WorkerHeartbeat(name=worker, seen_at=Now()), "seen_at")


def record_claim(worker: str) -> None:
    """Note that a message reached a worker and it tries to claim a job."""
    _record(WorkerHeartbeat(name=worker, seen_at=Now(), last_claim_at=Now()), "seen_at", "last_claim_at")


def elect_sweeper(worker: str, *, unless_swept_within_seconds: float) -> bool:
    """Return whether a worker is the one to sweep now, because no other did lately.

    One statement that holds no lock, so that a dead worker blocks nothing, with any pooler in between. Two sweepers
    at once are possible for a moment and do no harm: a message too many finds nothing to claim.
    """
    lately = Now() - timedelta(seconds=unless_swept_within_seconds)
    others = WorkerHeartbeat.objects.filter(last_sweep_at__gt=lately).exclude(name=worker)
    mine = WorkerHeartbeat.objects.filter(~Exists(others), name=worker)
    return bool(mine.update(seen_at=Now(), last_sweep_at=Now()))


def forget_old_workers() -> None:
    """Delete the signs of life of workers that have been gone for a day."""
    WorkerHeartbeat.objects.filter(seen_at__lt=Now() - HEARTBEAT_KEPT).delete()


def _record(heartbeat: WorkerHeartbeat, *fields: str) -> None:
    WorkerHeartbeat.objects.bulk_create(
        [heartbeat], update_conflicts=True, unique_fields=["name"], update_fields=list(fields)
    )
