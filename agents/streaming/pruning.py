"""Forget the parts of answers that have long been whole."""

from datetime import timedelta

from django.db.models.functions import Now

from agents.models.runs import Event

KEPT = timedelta(hours=1)
AT_ONCE = 10_000


def prune_parts() -> int:
    """Delete the parts of answers in runs that ended an hour ago; the messages stay. Return how many."""
    old = Event.objects.filter(kind="text", run__finished_at__lt=Now() - KEPT)
    return Event.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:AT_ONCE])).delete()[0]
