"""Releases, what is deployed, and the history of both."""

from typing import Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from memory.constraints import one_of
from memory.heuristics.models import HeuristicRevision
from memory.ids import uuid7
from memory.projects.models import Project
from memory.retrieval.assignment import DeploymentMode, DeploymentUnit
from memory.stored_text import BY_PEOPLE, StoredText


class ReleaseHow(models.TextChoices):
    HAND = "hand", "By hand"
    POLICY = "policy", "By policy"
    API = "api", "By API"


MOST_SHADOWED = 1000  # answers a minute; each takes a worker some hundredths of a second


class Release(models.Model):
    """An immutable manifest of wordings and settings, named by its hash. The same content is the same release.

    `manifest` holds ids, hashes and settings, and no text of a lesson: wordings are immutable rows. `sha256` is the
    hash of its canonical JSON. `number` is for people and counts within the project. `is_new` tells after a cut whether
    it made this release or found it.
    """

    How = ReleaseHow
    is_new = False

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="releases", db_index=False)
    number = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    parent = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="children",
        help_text="The release that was stable when this one was cut, else the newest one.",
    )
    manifest = models.JSONField()
    how = models.TextField(choices=How.choices, default=How.HAND)
    note = StoredText(blank=True, default="", kept=BY_PEOPLE)
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("how", ReleaseHow, "memory_release_how_known"),
            models.UniqueConstraint(fields=["project", "sha256"], name="memory_release_sha256_unique"),
            models.UniqueConstraint(fields=["project", "number"], name="memory_release_number_unique"),
            models.CheckConstraint(condition=Q(sha256__regex=r"^[0-9a-f]{64}$"), name="memory_release_sha256_is_hash"),
        ]

    def __str__(self) -> str:
        return f"Release {self.number} ({self.sha256[:12]})"

    def cut_in_words(self, *, note: str = "") -> str:
        """Say what a cut made, or that there was nothing new to cut. `note` is what was sent with it."""
        if self.is_new:
            lessons = len(self.manifest["lessons"])
            return f"{self} is cut: {lessons:,} lesson{'' if lessons == 1 else 's'}. Agents do not get it yet."
        dropped = " Your note was not kept, because a release never changes." if note else ""
        return f"Nothing was cut: {self} has exactly what is approved now.{dropped}"


class ReleaseMember(models.Model):
    """A wording of a release that can be served: what searches join to find the lessons of one release.

    Only releases that are kept ready have rows: those deployed and the newest few. The manifest is the truth; the rows
    are made from it.
    """

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="members", db_index=False)
    revision = models.ForeignKey(HeuristicRevision, on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["release", "revision"], name="memory_releasemember_once"),
        ]
        indexes = [models.Index(fields=["revision", "release"], name="memory_releasemember_of")]

    def __str__(self) -> str:
        return f"{self.revision_id} in {self.release_id}"


class DeploymentCutPolicy(models.TextChoices):
    HAND = "hand", "By hand"
    APPROVAL = "approval", "After every approval"
    NIGHTLY = "nightly", "Every night, if something changed"


class Deployment(models.Model):
    """What the agents of a project are given. A project without one serves every approval at once.

    One row holds all of it, so that a flip is one update and a request that reads it once sees one state. `version`
    counts the states; each has a DeploymentEvent. The hold-out's salt lives long; every canary gets one of its own.
    """

    Mode = DeploymentMode
    Unit = DeploymentUnit
    CutPolicy = DeploymentCutPolicy

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="deployment")
    mode = models.TextField(
        choices=Mode.choices, default=Mode.CONTINUOUS, help_text="When agents get what is approved."
    )
    stable = models.ForeignKey(Release, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    candidate = models.ForeignKey(Release, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    previous = models.ForeignKey(
        Release,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="The release that was stable before: what a roll-back returns to.",
    )
    canary_share = models.PositiveSmallIntegerField(
        default=0, help_text="Share of the units that get the candidate, in thousandths."
    )
    holdout_share = models.PositiveSmallIntegerField(
        default=0, help_text="Share of the units that get no lessons, in thousandths."
    )
    unit = models.TextField(choices=Unit.choices, default=Unit.SESSION, help_text="What stays in one arm.")
    canary_salt = models.TextField(default="", blank=True, editable=False)
    holdout_salt = models.TextField(editable=False)
    shadow_share = models.PositiveSmallIntegerField(
        default=0,
        help_text="Share of the answers, in thousandths, for which the candidate's answer is worked out afterwards.",
    )
    shadow_per_minute = models.PositiveIntegerField(
        default=60, help_text="Most answers a minute that are worked out for the candidate."
    )
    cut_policy = models.TextField(
        choices=CutPolicy.choices, default=CutPolicy.HAND, help_text="When a release is cut from what is approved."
    )
    version = models.PositiveIntegerField(default=0, editable=False)
    changed_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["project"]
        constraints = [
            one_of("mode", DeploymentMode, "memory_deployment_mode_known"),
            one_of("unit", DeploymentUnit, "memory_deployment_unit_known"),
            one_of("cut_policy", DeploymentCutPolicy, "memory_deployment_cut_policy_known"),
            models.CheckConstraint(
                condition=Q(canary_share__lte=1000, holdout_share__lte=1000, shadow_share__lte=1000),
                name="memory_deployment_shares_to_1000",
            ),
            models.CheckConstraint(
                # So that code that serves releases need not ask whether there is a stable one.
                condition=Q(mode=DeploymentMode.CONTINUOUS, stable__isnull=True, candidate__isnull=True)
                | Q(mode=DeploymentMode.RELEASES, stable__isnull=False),
                name="memory_deployment_releases_have_a_stable",
            ),
            models.CheckConstraint(
                condition=Q(candidate__isnull=True, canary_share=0)
                | Q(candidate__isnull=False) & ~Q(candidate=F("stable")),
                name="memory_deployment_canary_has_a_candidate",
            ),
        ]
        permissions = [("deploy_release", "Can cut, deploy and roll back releases")]

    def __str__(self) -> str:
        return f"deployment of {self.project_id}"

    def in_words(self) -> str:
        """Return what agents are given as a sentence. Runs no query if the releases are loaded."""
        sentence = (
            "Every approval is live at once" if self.stable is None else f"Release {self.stable.number} is stable"
        )
        if self.candidate is not None:
            sentence += f", release {self.candidate.number} is on trial with {self.canary_share / 10:g}% of the units"
        if self.holdout_share:
            sentence += f", {self.holdout_share / 10:g}% of the units get no lessons"
        if self.shadow_share:
            answers = f"{self.shadow_share / 10:g}% of the answers"
            once = "are compared in shadow" if self.candidate else "wait for a candidate to compare them with in shadow"
            sentence += f", {answers} {once}"
        return f"{sentence}."


class DeploymentEventKind(models.TextChoices):
    SETTINGS = "settings", "Settings changed"
    CANARY = "canary", "Canary started or widened"
    PROMOTED = "promoted", "Promoted"
    ROLLED_BACK = "rolled_back", "Rolled back"
    SEEN = "seen", "Automatic roll-back seen"


class DeploymentEventQuerySet(models.QuerySet["DeploymentEvent"]):
    def unseen_roll_backs(self) -> Self:
        """Keep what a policy rolled back and no person has acknowledged yet."""
        seen = DeploymentEvent.objects.filter(
            deployment=models.OuterRef("deployment"),
            kind=DeploymentEventKind.SEEN,
            version__gt=models.OuterRef("version"),
        )
        by_policy = self.filter(kind=DeploymentEventKind.ROLLED_BACK, made_by__startswith="policy:")
        return by_policy.filter(~models.Exists(seen))


class DeploymentEvent(models.Model):
    """A change of a deployment: the state it led to, who made it and why. Append-only, and in the audit chain."""

    Kind = DeploymentEventKind

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="events", db_index=False)
    version = models.PositiveIntegerField()
    kind = models.TextField(choices=Kind.choices)
    state = models.JSONField(help_text="The deployment after the change; releases by their ids.")
    reason = StoredText(blank=True, default="", kept=BY_PEOPLE)
    made_by = models.TextField()
    made_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = DeploymentEventQuerySet.as_manager()

    class Meta:
        ordering = ["-made_at", "-id"]
        constraints = [
            one_of("kind", DeploymentEventKind, "memory_deploymentevent_kind_known"),
            models.UniqueConstraint(fields=["deployment", "version"], name="memory_deploymentevent_version_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.made_by}"
