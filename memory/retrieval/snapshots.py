"""The snapshots a process holds, and how they keep up with the database.

The database says with every task which state a project is in (`memory_servedchange`). A snapshot of exactly that state
answers; otherwise the database does, and a thread brings the snapshot up to date. So nothing is ever served that was
withdrawn, nothing that was approved is missed, and nobody waits for a snapshot.
"""

import threading
import time
from collections import OrderedDict
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error, connection, transaction

from memory.retrieval.database import execute_prepared, read_prepared
from memory.retrieval.snapshot import Snapshot
from memory.retrieval.state import STATE, State

log = structlog.get_logger(__name__)


# What a text takes while it is read and while it is kept; a project that would not fit is left to the database.
BYTES_EACH_TEXT = 2000
REST_SHARE = 10  # a project that changes all the time is read for a tenth of the time at most
TOO_LARGE_SECONDS = 60.0

_COUNT = "SELECT count(*) FROM servable_text WHERE project_id = %(project)s AND embedding_model_id = %(model)s"
_TEXTS = """
SELECT revision_id, kind = 'lesson', trajectory_id, vector, terms FROM servable_text
WHERE project_id = %(project)s AND embedding_model_id = %(model)s ORDER BY revision_id
"""


class Snapshots:
    """The snapshots of the projects asked for last, within ERL_RETRIEVE_MEMORY_MB; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[UUID, Snapshot] = OrderedDict()
        self._not_before: dict[UUID, float] = {}
        self._loading = False
        self._thread: threading.Thread | None = None

    def find(self, project_id: UUID, state: State) -> Snapshot | None:
        """Return the snapshot of this state; where there is none, see to it that there soon is."""
        with self._lock:
            held = self._held.get(project_id)
            if held is not None and held.state == state.searched:
                self._held.move_to_end(project_id)
                return held
            if (
                self._loading
                or not settings.ERL_RETRIEVE_MEMORY_MB
                or connection.in_atomic_block  # of what is not committed a thread would see nothing
                or time.monotonic() < self._not_before.get(project_id, 0.0)
            ):
                return None
            self._loading = True
        self._thread = threading.Thread(target=self._load_beside, args=(project_id,), name="snapshot", daemon=True)
        self._thread.start()
        return None

    def load(self, project_id: UUID) -> Snapshot | None:
        """Read what a project serves now and keep it, unless it is too large."""
        started = time.monotonic()
        limit = settings.ERL_RETRIEVE_MEMORY_MB * 1_000_000
        snapshot = _read(project_id, limit)
        now = time.monotonic()
        with self._lock:
            self._held.pop(project_id, None)
            if snapshot is None:
                self._not_before[project_id] = now + TOO_LARGE_SECONDS
                return None
            self._not_before[project_id] = now + REST_SHARE * (now - started)
            self._held[project_id] = snapshot
            while sum(held.bytes for held in self._held.values()) > limit:
                self._held.popitem(last=False)
        return snapshot

    def wait(self) -> None:
        """Wait until nothing is being read."""
        if self._thread is not None:
            self._thread.join()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
            self._not_before.clear()

    def _load_beside(self, project_id: UUID) -> None:
        try:
            self.load(project_id)
        except Error as error:
            log.warning("snapshot_not_read", reason=type(error).__name__)
            with self._lock:
                self._not_before[project_id] = time.monotonic() + REST_SHARE
        finally:
            connection.close()  # this thread's own
            self._loading = False


def _read(project_id: UUID, limit: int) -> Snapshot | None:
    with transaction.atomic():
        execute_prepared("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
        (row,) = read_prepared(STATE.format(more=""), {"project": project_id})
        state = State(*row)
        parameters = {"project": project_id, "model": state.model}
        ((count,),) = read_prepared(_COUNT, parameters)
        if count * BYTES_EACH_TEXT > limit:
            return None
        return Snapshot.build(state.searched, read_prepared(_TEXTS, parameters))


snapshots = Snapshots()
