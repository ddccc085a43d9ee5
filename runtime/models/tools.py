"""Tools: a name, and what stood behind it at each time. A revision never changes (runtime/sql/tools.sql)."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memory.constraints import not_blank, one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.review.models import AbstractRevision, ReviewKind, ReviewSubject
from memory.stored_text import BY_PEOPLE, StoredArray, StoredJson, StoredText

TOOL_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"


class ToolKind(models.TextChoices):
    PURE = "pure", "May be repeated"
    LOCAL = "local", "Writes only in ERL, together with its record"
    IDEMPOTENT = "idempotent", "The other side makes repetitions one"
    UNSAFE = "unsafe", "Must not be repeated"


class ToolRuntime(models.TextChoices):
    MONTY = "monty", "Python without system calls"
    PYTHON = "python", "CPython in a sandbox of the operating system"
    HTTP = "http", "A request to a service"
    CORE = "core", "Part of ERL"


class ToolStatus(models.TextChoices):
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    RETIRED = "retired"


class ToolQuerySet(models.QuerySet["Tool"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)


class Tool(ReviewSubject):
    """A tool of a project. `current` is its approved revision, which new agents are given; None where there is none.

    `previous` was in force before that, for an approval that is undone.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.TextField()
    current = models.OneToOneField(
        "agents.ToolRevision", null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    previous = models.ForeignKey(
        "agents.ToolRevision", null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = ToolQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        permissions = [("review_tool", "Can put tools of agents in force")]
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=TOOL_NAME), name="agents_tool_name_is_a_name"),
            models.UniqueConstraint(fields=["project", "name"], name="agents_tool_name_unique"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def review_kind(self) -> str:
        return ReviewKind.TOOL


class ToolRevisionQuerySet(models.QuerySet["ToolRevision"]):
    def for_project(self, project: Project) -> Self:
        return self.filter(project=project)

    def waiting(self) -> Self:
        """Those that wait for a decision."""
        return self.filter(status=ToolStatus.PROPOSED)

    def approved(self) -> Self:
        return self.filter(status=ToolStatus.APPROVED)


class ToolRevision(AbstractRevision):
    """What a tool is: words for the model, and what a call does.

    `parameters` is the JSON schema of the arguments. `uses` names the host functions that the source may call, each a
    tool of the project or of ERL. `examples` are calls with what they answer, run in the sandbox before it is stored.
    `request` says what a tool of the runtime `http` sends.
    """

    Kind = ToolKind
    Runtime = ToolRuntime
    Status = ToolStatus

    tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="revisions", db_index=False)
    description = StoredText(kept=BY_PEOPLE)
    source = StoredText(blank=True, default="", kept=BY_PEOPLE)
    parameters = StoredJson(kept=BY_PEOPLE)
    uses = StoredArray(models.TextField(), default=list, blank=True, kept=BY_PEOPLE)
    kind = models.TextField(choices=Kind.choices, default=Kind.UNSAFE)
    runtime = models.TextField(choices=Runtime.choices, default=Runtime.MONTY)
    examples = StoredJson(default=list, blank=True, kept=BY_PEOPLE)
    limits = StoredJson(default=dict, blank=True, kept=BY_PEOPLE)
    request = StoredJson(default=dict, blank=True, kept=BY_PEOPLE)
    requires_approval = models.BooleanField(default=False, help_text="Unless a person allowed an agent to call it.")
    status = models.TextField(choices=Status.choices, default=Status.PROPOSED)

    objects = ToolRevisionQuerySet.as_manager()

    class Meta:
        ordering = ["tool", "-number"]
        constraints = [
            one_of("kind", ToolKind, "agents_toolrevision_kind_known"),
            one_of("runtime", ToolRuntime, "agents_toolrevision_runtime_known"),
            one_of("status", ToolStatus, "agents_toolrevision_status_known"),
            not_blank("description", "agents_toolrevision_says_what_it_does"),
            not_blank("created_by", "agents_toolrevision_by_not_blank"),
            models.UniqueConstraint(fields=["tool", "number"], name="agents_toolrevision_number_unique"),
            models.UniqueConstraint(fields=["tool", "content_sha256"], name="agents_toolrevision_once"),
            models.CheckConstraint(
                condition=Q(content_sha256__regex=r"^[0-9a-f]{64}$"), name="agents_toolrevision_is_hash"
            ),
            models.CheckConstraint(
                condition=Q(runtime__in=["monty", "python"], request={}) & ~Q(source="")
                | Q(runtime="http", source="") & ~Q(request={})
                | Q(runtime="core", source="", request={}),
                name="agents_toolrevision_fits_runtime",
            ),
        ]

    def __str__(self) -> str:
        return f"revision {self.number}"
