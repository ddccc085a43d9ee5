"""Limits on what an answer is made of: how much of each polarity, how many lessons from one source."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from memory.retrieval.candidates import Candidate


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerLimits:
    """Most lessons by polarity, as shares of the answer, and most lessons of one source; None and 0 are no limit."""

    max_works_share: float | None = None
    max_avoid_share: float | None = None
    max_per_source: int = 0

    @classmethod
    def of_family(cls, quotas: Mapping[str, Sequence[Any]], task_id: str) -> "AnswerLimits":
        """Return the limits for a task family: its own quota, else the project's, else none."""
        works, avoid = quotas.get(task_id) or quotas.get("") or (None, None)
        return cls(max_works_share=works, max_avoid_share=avoid, max_per_source=settings.ERL_RETRIEVE_MAX_PER_SOURCE)

    def apply(self, candidates: Sequence[Candidate], *, top_k: int) -> list[Candidate]:
        """Return the first `top_k` that keep to the limits, in their order.

        Sources limit each other only where there are several: a limit on a single one would only shorten the answer.
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


NO_LIMITS = AnswerLimits()
