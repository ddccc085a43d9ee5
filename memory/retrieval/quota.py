"""Limits on what an answer is made of: how much of each polarity, how many lessons from one source."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from uuid import UUID

from memory.retrieval.candidates import Candidate
from memory.retrieval.database import read_prepared

KNOWN_SECONDS = 5.0  # how long a process may not know that a quota was changed

_QUOTA = """
SELECT task_id, max_works_share, max_avoid_share FROM memory_polarityquota WHERE project_id = %(project)s
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Most lessons by polarity, as shares of the answer, and most lessons of one source; None and 0 are no limit."""

    max_works_share: float | None = None
    max_avoid_share: float | None = None
    max_per_source: int = 0

    def apply(self, candidates: Sequence[Candidate], *, top_k: int) -> list[Candidate]:
        """Return the first `top_k` that keep to the limits, in their order.

        Sources limit each other only where there are several: a single one would only make the answer shorter.
        """
        most = {
            polarity: round(share * top_k)
            for polarity, share in (("works", self.max_works_share), ("avoid", self.max_avoid_share))
            if share is not None
        }
        per_source = self.max_per_source if len({candidate.client for candidate in candidates}) > 1 else 0
        taken: list[Candidate] = []
        of_polarity: Counter[str] = Counter()
        of_source: Counter[str] = Counter()
        for candidate in candidates:
            if len(taken) == top_k:
                break
            if of_polarity[candidate.polarity] >= most.get(candidate.polarity, top_k):
                continue
            if per_source and of_source[candidate.client] >= per_source:
                continue
            of_polarity[candidate.polarity] += 1
            of_source[candidate.client] += 1
            taken.append(candidate)
        return taken


NO_LIMITS = Limits()


class KnownQuotas:
    """Remembers the quotas of projects for a few seconds, so that not every answer asks for them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._quotas: dict[UUID, tuple[float, dict[str, tuple[float | None, float | None]]]] = {}

    def find(self, project_id: UUID, task_id: str) -> tuple[float | None, float | None]:
        """Return the largest shares of works and avoid for a family: its own, else the project's, else none."""
        now = time.monotonic()
        with self._lock:
            until, quotas = self._quotas.get(project_id, (0.0, {}))
        if now > until:
            rows = read_prepared(_QUOTA, {"project": project_id})
            quotas = {family: (works, avoid) for family, works, avoid in rows}
            with self._lock:
                if len(self._quotas) > 1000:
                    self._quotas.clear()
                self._quotas[project_id] = now + KNOWN_SECONDS, quotas
        return quotas.get(task_id) or quotas.get("") or (None, None)

    def forget(self) -> None:
        """Ask again the next time."""
        with self._lock:
            self._quotas.clear()


known_quotas = KnownQuotas()


def find_limits(project_id: UUID, *, task_id: str, max_per_source: int) -> Limits:
    """Return the limits of an answer in a project for a task family."""
    works, avoid = known_quotas.find(project_id, task_id)
    return Limits(max_works_share=works, max_avoid_share=avoid, max_per_source=max_per_source)
