"""Tenants and their credentials."""

from collections.abc import Sequence
from typing import Any, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from memory.constraints import not_blank, one_of
from memory.ids import uuid7

# The sections of the record in the context block, in their order, with the most lines of each.
RECORD_SIZES: dict[str, int] = {
    "task_rules": 5,
    "general_rules": 3,
    "mistakes": 3,
    "mistake_cards": 3,
    "recent_outcomes": 5,
    "mean_score": 1,
}
MAX_RECORD_SIZE = 50


def validate_record_sizes(sizes: Any) -> None:
    """Refuse unknown sections, and sizes that are not whole numbers in range."""
    if not isinstance(sizes, dict):
        raise ValidationError('Write an object such as {"mistake_cards": 5, "mean_score": 0}.')
    for name, size in sizes.items():
        if name not in RECORD_SIZES:
            raise ValidationError(f"There is no section {name!r}. The sections are {', '.join(RECORD_SIZES)}.")
        # True is an integer to Python, and no number of lines.
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_RECORD_SIZE:
            raise ValidationError(f"{name}: give a whole number from 0, which leaves it out, to {MAX_RECORD_SIZE}.")


class ProjectMistakeCardPolicy(models.TextChoices):
    PEOPLE = "people", "People decide"
    CORROBORATED = "corroborated", "Approve what several runs of several clients report"
    EVERY_CARD = "every-card", "Approve every card"


class Project(models.Model):
    """A tenant: owns keys, trajectories, heuristics and settings. Nothing crosses projects."""

    MistakeCardPolicy = ProjectMistakeCardPolicy

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(unique=True)
    name = models.TextField()
    reflect_on_record = models.BooleanField(default=True, help_text="Queue a reflection for every recorded trajectory.")
    daily_call_budget = models.PositiveIntegerField(
        null=True, blank=True, help_text="Model calls per day. Leave empty for no limit."
    )
    daily_token_budget = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Model tokens per day. Leave empty for no limit."
    )
    daily_cost_budget_usd = models.DecimalField(
        max_digits=12,
        decimal_places=4,
        null=True,
        blank=True,
        help_text="Model cost per day in US dollars. Leave empty for no limit.",
    )
    four_eyes = models.BooleanField(
        "two reviewers",
        default=False,
        help_text="Two different people must approve a wording before agents get it.",
    )
    archived_at = models.DateTimeField(
        null=True, blank=True, help_text="From then on no decisions are taken in it. Lessons in use stay in use."
    )
    mistake_card_policy = models.TextField(
        choices=MistakeCardPolicy.choices,
        default=MistakeCardPolicy.PEOPLE,
        help_text="Who decides which mistake cards agents are given. Decisions of a policy are recorded in its name.",
    )
    mistake_card_retention_days = models.PositiveIntegerField(
        null=True, blank=True, help_text="Retire cards not seen for this many days. Leave empty to keep them."
    )
    # How long texts are kept; memory/trust/periods.py says what each is counted from.
    run_retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Erase runs, with what was learnt from them alone, this many days after their last step.",
    )
    conversation_retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Erase conversations, with their runs, this many days after their last message.",
    )
    passage_retention_days = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)], help_text="Delete passages after this many days."
    )
    answer_retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Delete answers that no run refers to after this many days. The server may delete them before.",
    )
    record_budget_tokens = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Size of the record in the context block. Leave empty for the server's default.",
    )
    record_sizes = models.JSONField(
        default=dict,
        blank=True,
        validators=[validate_record_sizes],
        help_text='Most lines of each section of the record, such as {"mistake_cards": 5, "mean_score": 0}. Sections '
        "that are not named keep their default.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["slug"]
        constraints = [
            not_blank("name", "memory_project_name_not_blank"),
            one_of("mistake_card_policy", ProjectMistakeCardPolicy, "memory_project_card_policy_known"),
        ]

    def __str__(self) -> str:
        return self.name


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self) -> Self:
        """Keys that authenticate now, by the clock of the database: neither revoked nor expired."""
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()), revoked_at__isnull=True)


class ApiKeyScope(models.TextChoices):
    TRAJECTORIES_READ = "trajectories:read"
    TRAJECTORIES_WRITE = "trajectories:write"
    HEURISTICS_READ = "heuristics:read"
    HEURISTICS_WRITE = "heuristics:write"
    RETRIEVE = "retrieve"
    REFLECT = "reflect"
    REVIEW = "review"
    RELEASE = "release"
    MEMORY_READ = "memory:read"
    MEMORY_WRITE = "memory:write"
    EVALUATE = "evaluate"
    RUN = "run"
    AGENTS = "agents"
    APPROVE = "approve"
    IMPORT = "import"


class ApiKey(models.Model):
    """An agent's or tool's credential in a project. Only a hash of the secret is kept."""

    Scope = ApiKeyScope

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="api_keys")
    client = models.TextField(help_text="Name of the agent or tool; keys of one client share their idempotency.")
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    secret_sha256 = models.CharField(max_length=64, editable=False)
    scopes = ArrayField(models.TextField(choices=Scope.choices))
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = "API key"
        ordering = ["-created_at"]
        constraints = [
            not_blank("client", "memory_apikey_client_not_blank"),
            models.CheckConstraint(
                condition=Q(secret_sha256__regex=r"^[0-9a-f]{64}$"),  # noqa: S106
                name="memory_apikey_secret_is_sha256",
            ),
            models.CheckConstraint(
                condition=Q(scopes__contained_by=ApiKeyScope.values) & Q(scopes__len__gt=0),
                name="memory_apikey_scopes_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.client} ({self.prefix}…)"


class ProjectMembershipRole(models.TextChoices):
    REVIEWER = "reviewer"
    AUDITOR = "auditor"
    OPERATOR = "operator"


class ProjectMembership(models.Model):
    """Where a person may do what the groups allow: in one project, or in every project, present and future.

    A group says what a person may do at all, a membership says where; it takes both. Without any membership a person
    sees no project's records; superusers see all.
    """

    Role = ProjectMembershipRole

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="project_memberships", db_index=False
    )
    project = models.ForeignKey(
        Project,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="memberships",
        help_text="Leave empty for every project, including future ones.",
    )
    role = models.TextField(
        choices=Role.choices,
        default=Role.REVIEWER,
        help_text="Reviewers decide, operators manage keys and reflections, auditors only read.",
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


class RuleChangeKind(models.TextChoices):
    SETTINGS = "settings", "project settings"
    REVIEWER = "reviewer", "another reviewer"
    API_KEY = "api_key", "an API key that may review"


class RuleChangeStatus(models.TextChoices):
    REQUESTED = "requested"
    CONFIRMED = "confirmed"
    REFUSED = "refused"


class RuleChangeQuerySet(models.QuerySet["RuleChange"]):
    def waiting(self) -> Self:
        """Those that another person has yet to confirm or refuse."""
        return self.filter(status=RuleChangeStatus.REQUESTED)


class RuleChange(models.Model):
    """A change of who decides, requested where two people are required; another person confirms or refuses it.

    `values` say what changes: the settings of the project, the account that becomes a reviewer, or the key. A trigger
    lets such a change through only with a confirmed row, and uses each row once (`applied_at`).
    """

    Kind = RuleChangeKind
    Status = RuleChangeStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="rule_changes",
        help_text="Empty for every project.",
    )
    kind = models.TextField(choices=Kind.choices)
    values = models.JSONField()
    status = models.TextField(choices=Status.choices, default=Status.REQUESTED)
    requested_by = models.TextField()
    requested_user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(db_default=Now())
    decided_by = models.TextField(blank=True, default="")
    decided_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    applied_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = RuleChangeQuerySet.as_manager()

    class Meta:
        ordering = ["-requested_at", "-id"]
        constraints = [
            one_of("kind", RuleChangeKind, "memory_rulechange_kind_known"),
            one_of("status", RuleChangeStatus, "memory_rulechange_status_known"),
            models.CheckConstraint(
                condition=~Q(status="confirmed") | (~Q(decided_by="") & ~Q(decided_by=F("requested_by"))),
                name="memory_rulechange_confirmed_by_another",
            ),
        ]

    def __str__(self) -> str:
        changes = ", ".join(f"{name}: {value}" for name, value in self.values.items())
        return f"{self.get_kind_display()} ({changes})"


def project_ids_of(user: Any, *, roles: Sequence[str] = ()) -> "models.QuerySet[Project, Any]":
    """Return the ids of the projects in which a person is a member, or has one of the roles, as a subquery."""
    memberships = ProjectMembership.objects.filter(user=user.pk)
    if roles:
        memberships = memberships.filter(role__in=roles)
    in_all = memberships.filter(project__isnull=True)
    in_project = memberships.filter(project=models.OuterRef("pk"))
    return Project.objects.filter(models.Exists(in_all) | models.Exists(in_project)).values("pk")
