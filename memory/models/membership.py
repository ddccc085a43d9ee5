"""Who works on which project."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from memory.models.constraints import one_of
from memory.models.project import Project


class ProjectMembershipRole(models.TextChoices):
    REVIEWER = "reviewer"
    AUDITOR = "auditor"
    OPERATOR = "operator"


class ProjectMembership(models.Model):
    """Where a person may do what the groups allow: in one project, or in every project there is and will be.

    A group says what a person may do at all, a membership says where; it takes both. Without any membership a person
    sees no project's records; superusers see all.
    """

    Role = ProjectMembershipRole

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="project_memberships")
    project = models.ForeignKey(
        Project,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="memberships",
        help_text="Empty stands for every project, those to come included.",
    )
    role = models.TextField(
        choices=Role.choices,
        default=Role.REVIEWER,
        help_text="Reviewers decide, auditors look on, operators look after keys and reflections. All may read.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["user", "project", "role"]
        constraints = [
            one_of("role", ProjectMembershipRole, "memory_membership_role_known"),
            models.UniqueConstraint(
                fields=["user", "project", "role"], nulls_distinct=False, name="memory_membership_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project or 'every project'}"


def project_ids_of(user: Any, *, roles: Sequence[str] = ()) -> "models.QuerySet[Project, Any]":
    """Return the ids of the projects in which a person is a member, or has one of the roles, as a subquery."""
    memberships = ProjectMembership.objects.filter(user=user.pk)
    if roles:
        memberships = memberships.filter(role__in=roles)
    in_all = memberships.filter(project__isnull=True)
    named = memberships.filter(project=models.OuterRef("pk"))
    return Project.objects.filter(models.Exists(in_all) | models.Exists(named)).values("pk")
