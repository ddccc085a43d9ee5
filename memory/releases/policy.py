"""Cut releases without a person, where a project says so: after every approval, or every night."""

from uuid import UUID

from django.utils import timezone

from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import cut_release
from memory.releases.models import Deployment, Release
from memory.rows import find_row

_Policy = Deployment.CutPolicy
BY = Actor.policy("releases")


def cut_after_approval(project_id: UUID) -> Release | None:
    """Cut a release of what is approved now, if the project wants one after every approval."""
    project = find_row(Project.objects.filter(pk=project_id, deployment__cut_policy=_Policy.APPROVAL))
    return cut_release(project, by=BY, how=Release.How.POLICY) if project is not None else None


def cut_every_night() -> int:
    """Cut a release in every project that wants one a night and got none today (UTC); return how many there were.

    Where nothing has changed there is no new release, and the next call asks again, which costs one query.
    """
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    wanting = Project.objects.filter(deployment__cut_policy=_Policy.NIGHTLY, archived_at__isnull=True)
    count = 0
    for project in wanting.exclude(releases__created_at__gte=midnight):
        before = Release.objects.filter(project=project).count()
        cut_release(project, by=BY, how=Release.How.POLICY)
        # The same content is the same release, so a cut may make none.
        count += Release.objects.filter(project=project).count() - before
    return count
