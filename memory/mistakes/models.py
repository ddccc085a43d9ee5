"""Mistake cards: the lessons of kind `mistake`, which say what agents did wrong and in how many runs."""

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.db import models
from django.db.models import Q
from django.utils.dateparse import parse_datetime
from django.utils.text import Truncator

from memory.heuristics.models import Heuristic, HeuristicRevision, ReviewedQuerySet


class MistakeCardQuerySet(ReviewedQuerySet["MistakeCard"]):
    def unmerged(self) -> Self:
        """Cards that count for themselves."""
        return self.filter(superseded_by__isnull=True)

    def unseen_since(self, moment: datetime) -> Self:
        """Cards that agents are given, and that no run has reported since."""
        unseen = Q(last_seen_at__lt=moment) | Q(last_seen_at__isnull=True, created_at__lt=moment)
        return self.filter(unseen, revisions__served=True).distinct()


class MistakeCardManager(models.Manager["MistakeCard"]):
    def get_queryset(self) -> models.QuerySet["MistakeCard"]:
        return super().get_queryset().filter(kind=Heuristic.Kind.MISTAKE)


class MistakeCard(Heuristic):
    """One mistake that agents make: its identity, how often it was seen, and its status.

    Two reports are the same mistake if their type, task family, worker and correct decision agree (`identity_sha256`).
    A report in other words is a card of its own until the two are merged: the one is superseded by the other then.

    `support` counts the distinct runs it was seen in, up to a limit for each client, including those of the cards
    merged into it. `approved_support` is the count that a reviewer last confirmed; it decides the place in the prompt.
    Evidence has the runs, each with the words that it reported.
    """

    objects = MistakeCardManager.from_queryset(MistakeCardQuerySet)()  # type: ignore[misc,assignment]  # finds cards

    class Meta:
        proxy = True
        permissions = [("review_mistakecard", "Can approve, reject, retire and merge mistake cards")]

    def __str__(self) -> str:
        return Truncator(self.mistake_type).chars(80)

    @property
    def newest(self) -> HeuristicRevision:
        assert self.current_revision is not None  # every card is made with one
        return self.current_revision

    @property
    def mistake_type(self) -> str:
        return self.newest.trigger

    @property
    def task_id(self) -> str:
        return self.newest.task_id

    @property
    def worker_id(self) -> str:
        return self.newest.worker_id

    @property
    def imported_count(self) -> int:
        """How often it had been counted before the import."""
        return int(self.details.get("imported_count", 0))

    @property
    def first_seen_id(self) -> UUID | None:
        return _read_id(self.details.get("first_seen"))

    @property
    def last_seen_id(self) -> UUID | None:
        return _read_id(self.details.get("last_seen"))

    @property
    def first_seen_at(self) -> datetime | None:
        return parse_datetime(self.details.get("first_seen_at") or "")

    @property
    def merge(self) -> dict[str, Any] | None:
        """Who merged it into another card: `by`, `at`, `similarity`; its `status` and what was `served` before."""
        merge: dict[str, Any] | None = self.details.get("merge")
        return merge

    @property
    def undone_merges(self) -> list[dict[str, Any]]:
        """The merges that were undone: the card it had been merged `into`, `by` and `undone_by`."""
        return list(self.details.get("undone_merges", ()))


def _read_id(value: str | None) -> UUID | None:
    return UUID(value) if value else None
