"""Say how much of an answer may be lessons of one polarity."""

from django.db import transaction
from django.utils import timezone

from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.models import PolarityQuota
from memory.retrieval.quota import known_quotas


@transaction.atomic
def set_polarity_quota(
    project: Project, *, task_id: str = "", max_works_share: float | None, max_avoid_share: float | None, by: Actor
) -> PolarityQuota:
    """Set the largest shares, 0 to 1, of works and avoid for a family, or for all that have none; None is no limit.

    Other processes notice within five seconds.
    """
    quota, _ = PolarityQuota.objects.update_or_create(
        project=project,
        task_id=task_id,
        defaults={
            "max_works_share": max_works_share,
            "max_avoid_share": max_avoid_share,
            "set_by": by.label,
            "set_at": timezone.now(),
        },
    )
    transaction.on_commit(known_quotas.forget)
    return quota
