"""Lessons, their immutable revisions and the runs they come from."""

from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Self, TypeVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Func, Q, TextField, Value
from django.db.models.functions import MD5, Concat, Lower, Now, Trim
from django.utils import timezone
from django.utils.text import Truncator

from memory.constraints import not_blank, one_of
from memory.heuristics.text import RULE_TAG, HeuristicText
from memory.ids import uuid7
from memory.limits import MAX_VALID_DAYS
from memory.projects.models import Project
from memory.review.models import AbstractRevision, ReviewSubject
from memory.runs.models import Trajectory
from memory.stored_text import BY_PEOPLE, StoredArray, StoredChars, StoredJson, StoredText


def hash_words(text: Concat | Value) -> MD5:
    """Return a hash of the words of a text that ignores case, punctuation and spaces."""
    words = Func(text, Value(r"\W+"), Value(" "), Value("g"), function="regexp_replace", output_field=TextField())
    return MD5(Lower(Trim(words)))


def hash_said() -> MD5:
    """Return `hash_words` of what a revision says: its trigger and its guideline. There is an index on it."""
    return hash_words(Concat("trigger", Value(" ", output_field=TextField()), "guideline", output_field=TextField()))


Row = TypeVar("Row", bound=models.Model)


class HeuristicKind(models.TextChoices):
    LESSON = "lesson"
    MISTAKE = "mistake"


class HeuristicStatus(models.TextChoices):
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    RETIRED = "retired"
    QUARANTINED = "quarantined"
    SUPERSEDED = "superseded"


class ReviewedQuerySet(models.QuerySet[Row]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def proposed(self) -> Self:
        """Those that wait for a decision."""
        return self.filter(status="proposed")

    def with_text(self) -> Self:
        """Fetch the newest revision with each."""
        return self.select_related("current_revision")


class RevisionQuerySet(models.QuerySet[Row]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def of_lessons(self) -> Self:
        """Those of lessons, without those of mistake cards."""
        return self.filter(kind="lesson")

    def of_mistakes(self) -> Self:
        return self.filter(kind="mistake")

    def served(self) -> Self:
        """Exactly what agents may be given."""
        return self.filter(served=True).valid()

    def valid(self) -> Self:
        """Those that have not ended, by the clock that searches use."""
        by_date = Q(valid_until__isnull=True) | Q(valid_until__gt=Now())
        by_age = (
            Q(expires_after__isnull=True) | Q(approved_at__isnull=True) | Q(approved_at__gt=Now() - F("expires_after"))
        )
        return self.filter(by_date, by_age)

    def covered(self) -> Self:
        """Those whose words a quarantine order in force covers."""
        order = Func("project_id", "lineage", function="memory_covering_order", output_field=models.UUIDField())
        return self.alias(order=order).filter(order__isnull=False)


def served_is_approved(name: str, *, flag: str = "served") -> models.CheckConstraint:
    """Let a wording be served only with an approval of its own hash, in the database."""
    return models.CheckConstraint(
        condition=Q(**{flag: False})
        | (
            Q(approved_sha256=F("content_sha256"), approved_at__isnull=False)
            & Q(approved_sha256__regex=r"^[0-9a-f]{64}$")
            & ~Q(approved_by="")
        ),
        name=name,
    )


class HeuristicQuerySet(ReviewedQuerySet["Heuristic"]):
    def leading(self) -> Self:
        """Those that stand for themselves: not the other wordings of a group of proposals."""
        return self.filter(leader__isnull=True)

    def with_words(self, text: str) -> Self:
        """Those whose newest wording has all the words, in any of its parts."""
        rows = self
        for word in text.split():
            parts = ("trigger", "guideline", "avoid", "not_when", "rationale", "task_id")
            said = [Q(**{f"current_revision__{part}__icontains": word}) for part in parts]
            rows = rows.filter(reduce(or_, said))
        return rows

    def claimed(self) -> Self:
        """Those that a reviewer has claimed now."""
        return self.filter(claimed_by__isnull=False, claimed_until__gt=timezone.now())


class HeuristicManager(models.Manager["Heuristic"]):
    """Finds lessons alone, so that no list, count or search of them can forget it; see `MistakeCard` for mistakes."""

    def get_queryset(self) -> models.QuerySet["Heuristic"]:
        return super().get_queryset().filter(kind=HeuristicKind.LESSON)


class Heuristic(ReviewSubject):
    """A lesson. Its wordings are revisions; this row is its identity and its status.

    A lesson of kind `mistake` is a mistake card: what agents did wrong and what would have been right. It is counted
    rather than searched, and agents are given it in the record of earlier runs (memory/mistakes).

    `status` speaks of the newest revision. A heuristic with an approved revision that is being edited is `proposed`
    and still serves the approved one. `HeuristicRevision.served` is the wording that is approved now, and `live` what
    agents are given: the same, unless the project serves releases.
    """

    Kind = HeuristicKind
    Status = HeuristicStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="heuristics", db_index=False)
    kind = models.TextField(choices=Kind.choices, default=Kind.LESSON, db_default=Kind.LESSON, editable=False)
    status = models.TextField(choices=Status.choices, default=Status.PROPOSED)
    current_revision = models.OneToOneField(
        "memory.HeuristicRevision", null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    reflector = models.TextField(
        blank=True, default="", help_text="The reflector that wrote it, llm or rules; empty if a person did."
    )
    reflector_version = models.TextField(blank=True, default="")
    model = models.TextField(blank=True, default="")
    prompt_version = models.TextField(blank=True, default="")
    confidence = models.FloatField(null=True, blank=True)
    client = models.TextField(blank=True, default="", help_text="The API client that proposed it.")
    external_id = StoredText(blank=True, default="", help_text="The client's own id of this lesson.")
    metadata = StoredJson(default=dict, blank=True, help_text="Kept for the client; no agent gets it.")
    support = models.PositiveIntegerField(default=0, help_text="Distinct trajectories it was learnt from.")
    approved_support = models.PositiveIntegerField(
        default=0, editable=False, help_text="Those of them that a reviewer approved with it; only these are ranked by."
    )
    superseded_by = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="supersedes"
    )
    leader = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="members",
        editable=False,
        help_text="The proposal that gives the same advice in better words and stands in the queue for this one.",
    )
    grouped_at = models.DateTimeField(null=True, editable=False, help_text="When it last joined a group.")
    review_priority = models.FloatField(
        default=0, editable=False, help_text="Expected effect of a decision; orders the queue."
    )
    review_basis = models.JSONField(default=dict, editable=False, help_text="What the priority was computed from.")
    risk_flags = ArrayField(
        models.TextField(), default=list, editable=False, help_text="Codes of the problems the checks found."
    )
    prioritised_at = models.DateTimeField(null=True, editable=False)
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
        help_text="The reviewer who reads it, for a few minutes.",
    )
    claimed_until = models.DateTimeField(null=True, editable=False)
    usefulness = models.FloatField(
        default=0.5,
        editable=False,
        help_text="From 0 to 1; 0.5 if nothing is known. Whether runs that followed it succeeded.",
    )
    usefulness_basis = models.JSONField(default=dict, editable=False, help_text="What it was computed from.")
    usefulness_version = models.TextField(
        blank=True, default="", editable=False, help_text="Version of the rule that computed it; empty if none did."
    )
    harm = models.JSONField(
        null=True, editable=False, help_text="How much less often runs given it succeed, where that is sure."
    )

    identity_sha256 = models.CharField(
        max_length=64, blank=True, default="", db_default="", editable=False, help_text="Which mistake a card is about."
    )
    last_seen_at = models.DateTimeField(null=True, editable=False, help_text="When a mistake was last reported.")
    details = StoredJson(
        default=dict,
        db_default=Value({}, models.JSONField()),
        editable=False,
        kept="of a mistake card, from a memory file and not from a run",
        help_text="Of a mistake card: the runs it was first and last seen in, what was imported, and its merges.",
    )

    created_at = models.DateTimeField(db_default=Now(), editable=False)  # by the clock that quarantine uses
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = HeuristicManager.from_queryset(HeuristicQuerySet)()

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name = "lesson"
        constraints = [
            one_of("kind", HeuristicKind, "memory_heuristic_kind_known"),
            one_of("status", HeuristicStatus, "memory_heuristic_status_known"),
            models.CheckConstraint(
                condition=Q(kind="lesson", identity_sha256="")
                | Q(kind="mistake", identity_sha256__regex=r"^[0-9a-f]{64}$"),
                name="memory_heuristic_mistake_has_identity",
            ),
            models.UniqueConstraint(
                fields=["project", "identity_sha256"],
                condition=Q(kind="mistake"),
                name="memory_heuristic_mistake_once",
            ),
            models.CheckConstraint(
                condition=Q(confidence__isnull=True) | Q(confidence__gte=0, confidence__lte=1),
                name="memory_heuristic_confidence_0_to_1",
            ),
            models.CheckConstraint(
                condition=Q(usefulness__gte=0, usefulness__lte=1), name="memory_heuristic_usefulness_0_to_1"
            ),
            models.CheckConstraint(
                condition=Q(leader__isnull=True) | Q(status="proposed", grouped_at__isnull=False),
                name="memory_heuristic_grouped_is_proposed",
            ),
            models.UniqueConstraint(
                fields=["project", "client", "external_id"],
                condition=~Q(external_id=""),
                name="memory_heuristic_external_id_unique",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "status", "-created_at", "-id"], name="memory_heuristic_queue"),
            models.Index(
                fields=["project", "-review_priority", "-created_at", "-id"],
                condition=Q(kind="lesson", status="proposed"),
                name="memory_heuristic_by_effect",
            ),
            models.Index(
                F("prioritised_at").asc(nulls_first=True),
                condition=Q(kind="lesson", status="proposed"),
                name="memory_heuristic_to_order",
            ),
            models.Index(
                fields=["project", "-support", "-id"],
                condition=Q(kind="mistake"),
                name="memory_heuristic_frequent",
            ),
            models.Index(fields=["project"], condition=Q(harm__isnull=False), name="memory_heuristic_harmful"),
            models.Index(fields=["claimed_by"], condition=Q(claimed_by__isnull=False), name="memory_heuristic_claimed"),
        ]
        permissions = [("review_heuristic", "Can approve, reject, retire and quarantine heuristics")]

    def __str__(self) -> str:
        return Truncator(self.current_revision.trigger).chars(80) if self.current_revision else str(self.id)

    @property
    def review_kind(self) -> str:
        return self.kind

    @property
    def is_claimed(self) -> bool:
        """Whether a reviewer has claimed it now."""
        # A claim that has expired is not cleared, so its end is compared.
        return self.claimed_by_id is not None and self.claimed_until is not None and self.claimed_until > timezone.now()


class HeuristicRevisionPolarity(models.TextChoices):
    WORKS = "works"
    AVOID = "avoid"
    MIXED = "mixed"


class HeuristicRevisionScope(models.TextChoices):
    TASK_FAMILY = "task_family"
    PROJECT = "project"


class HeuristicRevision(AbstractRevision):
    """One wording of a heuristic. Immutable: the database refuses changes.

    A trigger fills `content_sha256` from every text that is served. The database lets `served` be true only where
    exactly that hash was approved (reliability C2), and only for one revision of a heuristic. It also fills `lineage`,
    and serves nothing whose lineage a quarantine order covers (D3). A service names in `lineage` the wordings of other
    lessons that it took words from.

    Of a mistake, `trigger` is its type, `avoid` the bad decision, `guideline` the correct one, `rationale` the lesson.
    Until there is a decision on such a wording, newer words replace it in place, so that a mistake that is reported a
    thousand times has one wording waiting. It is never `live`: agents are given the `served` one in the record.

    A trigger keeps `live`: agents may be given this wording. Where every approval is live at once it equals `served`;
    where a project serves releases, several wordings of one heuristic may be live, each in other releases. A quarantine
    sets `withdrawn_at`, which ends it in every release (memory/sql/releases.sql).
    """

    Polarity = HeuristicRevisionPolarity
    Scope = HeuristicRevisionScope

    # Its indexes begin with the project.
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    served = models.BooleanField(default=False, editable=False)
    approved_sha256 = models.CharField(max_length=64, editable=False, default="")
    approved_by = models.TextField(editable=False, default="")
    approved_at = models.DateTimeField(null=True, editable=False)
    words_sha256 = models.CharField(
        max_length=64, editable=False, default="", help_text="Of what it tells to do, without case and punctuation."
    )
    lineage = ArrayField(
        models.UUIDField(),
        editable=False,
        default=list,
        help_text="The wordings that its words come from, this one included.",
    )
    kind = models.TextField(
        choices=HeuristicKind.choices, default=HeuristicKind.LESSON, db_default=HeuristicKind.LESSON, editable=False
    )
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    trigger = StoredText(help_text="When it applies; must be observable before acting.")
    guideline = StoredText(blank=True, help_text="What to do.")
    avoid = StoredText(blank=True, default="")
    not_when = StoredText(blank=True, default="")
    rationale = StoredText(blank=True, default="")
    polarity = models.TextField(choices=Polarity.choices, default=Polarity.MIXED)
    scope = models.TextField(choices=Scope.choices, default=Scope.TASK_FAMILY)
    task_id = StoredText(blank=True, default="", help_text="Task family.")
    tags = StoredArray(models.TextField(), default=list, blank=True)
    source_task = StoredText(blank=True, default="", help_text="The task it was learnt from.")
    valid_until = models.DateTimeField(null=True, blank=True, help_text="When it goes out of service by itself.")
    expires_after = models.DurationField(
        null=True, blank=True, help_text="How long after its approval it goes out of service by itself."
    )
    worker_id = StoredText(
        blank=True, default="", db_default="", help_text="Which agent or part of one makes a mistake."
    )
    search = SearchVectorField(null=True, editable=False)
    names = StoredText(null=True, editable=False)  # made by a trigger, see memory/retrieval/name_match.py
    live = models.BooleanField(default=False, db_default=False, editable=False)
    withdrawn_at = models.DateTimeField(null=True, editable=False)

    objects = RevisionQuerySet["HeuristicRevision"].as_manager()

    class Meta:
        ordering = ["heuristic", "number"]
        constraints = [
            not_blank("trigger", "memory_revision_trigger_not_blank"),
            models.CheckConstraint(
                condition=~Q(guideline="") | Q(kind="mistake") & ~Q(avoid="", rationale=""),
                name="memory_revision_says_something",
            ),
            one_of("kind", HeuristicKind, "memory_revision_kind_known"),
            one_of("polarity", HeuristicRevisionPolarity, "memory_revision_polarity_known"),
            one_of("scope", HeuristicRevisionScope, "memory_revision_scope_known"),
            models.CheckConstraint(
                condition=Q(expires_after__isnull=True)
                | Q(expires_after__gt=timedelta(), expires_after__lte=timedelta(days=MAX_VALID_DAYS)),
                name="memory_revision_expires_after_approval",
            ),
            models.UniqueConstraint(fields=["heuristic", "number"], name="memory_revision_number_unique"),
            models.UniqueConstraint(fields=["heuristic"], condition=Q(served=True), name="memory_revision_one_served"),
            served_is_approved("memory_revision_served_is_approved"),
            served_is_approved("memory_revision_live_is_approved", flag="live"),
        ]
        indexes = [
            models.Index(fields=["project", "task_id"], name="memory_revision_servable", condition=Q(live=True)),
            models.Index(
                fields=["project", "task_id"],
                name="memory_revision_rules",
                condition=Q(live=True, tags__contains=[RULE_TAG]),
            ),
            models.Index(
                fields=["project", "task_id"],
                name="memory_revision_mistakes",
                condition=Q(kind="mistake", served=True),
            ),
            # Nearly empty: every answer asks which wording of the project ended last.
            models.Index(
                fields=["project"],
                name="memory_revision_ending",
                condition=Q(live=True) & (Q(valid_until__isnull=False) | Q(expires_after__isnull=False)),
            ),
            GinIndex(fields=["search"], name="memory_revision_search", condition=Q(live=True)),
            models.Index(F("project"), hash_said(), name="memory_revision_words"),
            models.Index(fields=["project", "words_sha256", "created_at", "id"], name="memory_revision_same_words"),
            GinIndex(fields=["lineage"], name="memory_revision_lineage"),
            GinIndex(
                fields=["project", "names"],
                opclasses=["uuid_ops", "gin_trgm_ops"],
                name="memory_revision_names",
                condition=Q(live=True, names__gt=""),
            ),
            GinIndex(
                F("project"),
                Func(F("names"), Value(" "), function="string_to_array", output_field=ArrayField(models.TextField())),
                name="memory_revision_named",
                condition=Q(live=True, names__gt=""),
            ),
            # Nearly empty, so that the periodic work finds at once that nothing is left to name.
            models.Index(fields=["id"], name="memory_revision_nameless", condition=Q(names__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{Truncator(self.trigger).chars(60)} (revision {self.number})"

    def as_text(self) -> HeuristicText:
        return HeuristicText(
            trigger=self.trigger,
            guideline=self.guideline,
            avoid=self.avoid,
            not_when=self.not_when,
            rationale=self.rationale,
            polarity=self.polarity,
            scope=self.scope,
            task_id=self.task_id,
            tags=tuple(self.tags),
            source_task=self.source_task,
            valid_until=self.valid_until,
            expires_after=self.expires_after,
        )

    @property
    def ends_at(self) -> datetime | None:
        """When agents are no longer given it; None if it never ends, or if that depends on a future approval."""
        by_age = self.approved_at + self.expires_after if self.approved_at and self.expires_after else None
        return min((end for end in (self.valid_until, by_age) if end is not None), default=None)

    @property
    def is_over(self) -> bool:
        return self.ends_at is not None and self.ends_at <= timezone.now()


class Evidence(models.Model):
    """Where a heuristic comes from: a run, the steps in it and a quote. Steps count from 1.

    The run's task makes the heuristic easier to find, and the run counts as support in ranking, once `approved_at` is
    set: it was there when the heuristic was approved, or a reviewer confirmed it since.

    Of a mistake it is a sighting: the run counts once, and `words` are those that it reported the mistake in.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    heuristic = models.ForeignKey(Heuristic, on_delete=models.CASCADE, related_name="evidence", db_index=False)
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="evidence")
    first_step = models.PositiveIntegerField(null=True, blank=True)
    last_step = models.PositiveIntegerField(null=True, blank=True)
    quote = StoredText(blank=True, default="")
    client = models.TextField(
        blank=True, default="", db_default="", editable=False, help_text="The API client whose run showed a mistake."
    )
    words = StoredJson(null=True, editable=False, help_text="Of a mistake: in the words of this run.")
    approved_by = models.TextField(editable=False, default="")
    approved_at = models.DateTimeField(null=True, editable=False)
    merged_from = models.ForeignKey(
        Heuristic,
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The lesson it came from in a merge.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name_plural = "evidence"
        ordering = ["heuristic", "created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(approved_at__isnull=True, approved_by="")
                | Q(approved_at__isnull=False) & ~Q(approved_by=""),
                name="memory_evidence_approved_by_someone",
            ),
            models.UniqueConstraint(
                fields=["heuristic", "trajectory", "first_step", "last_step"],
                # A run that is cited as a whole has no steps, and is cited once too.
                nulls_distinct=False,
                name="memory_evidence_once",
            ),
            models.CheckConstraint(
                condition=Q(first_step__isnull=True, last_step__isnull=True)
                | Q(first_step__gte=1, last_step__gte=F("first_step")),
                name="memory_evidence_steps_in_order",
            ),
        ]
        indexes = [
            models.Index(
                fields=["heuristic", "client"], name="memory_evidence_of_client", condition=Q(words__isnull=False)
            ),
            models.Index(
                fields=["heuristic", "-created_at", "-id"],
                name="memory_evidence_newest",
                condition=Q(words__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"steps {self.first_step}–{self.last_step}" if self.first_step else "whole run"


class SavedFilter(models.Model):
    """A person's saved filters for the queue. `query` is the query string of the address."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = StoredChars(max_length=60, kept=BY_PEOPLE)
    query = StoredChars(max_length=1000, kept=BY_PEOPLE)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            not_blank("name", "memory_savedfilter_name_not_blank"),
            models.UniqueConstraint(fields=["user", "name"], name="memory_savedfilter_name_once"),
        ]

    def __str__(self) -> str:
        return self.name
