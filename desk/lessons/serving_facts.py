"""Where agents get a lesson: everything besides its words that decides that, as the desk shows it.

A test compares these names with what retrieval may read of a lesson (memory/sql/serving.sql) and with what the hash
covers: a column that is added there and not shown fails it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.text import Truncator

from memory.curation.proposal_groups import find_group_evidence
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import RULE_TAG
from memory.retrieval.models import HeuristicEmbedding, PolarityQuota
from memory.retrieval.safe_text import needs_cleaning

SHOWN_TASKS = 100
_WORDS = ("trigger", "guideline", "avoid", "not_when", "rationale")
_Kind = HeuristicEmbedding.Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One thing that decides where a lesson is given. `name` is the field's."""

    name: str
    label: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LeadingTask:
    """A task that makes a lesson come up for tasks like it, and who brought it."""

    task: str
    trajectory_id: UUID
    client: str
    agent: str
    counts: bool
    approved_by: str = ""
    approved_at: datetime | None = None
    helped: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """Where a lesson is given: warnings, facts, and the tasks that lead to it, those that do not count yet first."""

    warnings: tuple[str, ...]
    facts: tuple[Fact, ...]
    tasks: tuple[LeadingTask, ...]
    tasks_not_shown: int

    @property
    def waiting(self) -> int:
        """How many tasks a reviewer has not seen yet."""
        return sum(not task.counts for task in self.tasks)


def describe_serving(heuristic: Heuristic, revision: HeuristicRevision) -> Serving:
    """Collect where a wording is given once it is approved. Three queries."""
    tasks = [*_find_source_tasks(heuristic), *_find_helped_tasks(revision)]
    tasks.sort(key=lambda task: task.counts)
    return Serving(
        warnings=tuple(_warn(revision, tasks)),
        facts=tuple(fact for fact in _list_facts(heuristic, revision) if fact.text),
        tasks=tuple(tasks[:SHOWN_TASKS]),
        tasks_not_shown=max(0, len(tasks) - SHOWN_TASKS),
    )


def _warn(revision: HeuristicRevision, tasks: list[LeadingTask]) -> list[str]:
    warnings = []
    if RULE_TAG in revision.tags:
        whole = revision.scope == HeuristicRevision.Scope.PROJECT
        where = "of the project" if whole else f"of the family {revision.task_id}"
        if whole or revision.task_id:
            warnings.append(f"Given with every task {where}, without a search: it has the tag “{RULE_TAG}”.")
    elif revision.scope == HeuristicRevision.Scope.PROJECT:
        warnings.append("Given in every task family of the project, where it fits.")
    if needs_cleaning(*(getattr(revision, name) for name in _WORDS)):
        warnings.append(
            "Contains hidden or control characters, or a chat template's end-of-turn marker. Agents get it without "
            "them."
        )
    source = revision.source_task
    if source and not any(task.task.startswith(source) for task in tasks):
        warnings.append(
            f"Agents get it first for tasks like “{Truncator(source).chars(120)}”: its author named that task, but "
            "none of its runs had it."
        )
    return warnings


def _list_facts(heuristic: Heuristic, revision: HeuristicRevision) -> list[Fact]:
    most = settings.ERL_RETRIEVE_MAX_PER_SOURCE
    client = heuristic.client and heuristic.client + (f" (at most {most} of an answer)" if most else "")
    support = f"{heuristic.approved_support} of {heuristic.support} count in ranking"
    said = {
        "polarity": ("Kind", revision.get_polarity_display()),
        "scope": ("Scope", revision.get_scope_display().capitalize()),
        "task_id": ("Task family", revision.task_id or "none"),
        "tags": ("Tags", ", ".join(revision.tags) or "none"),
        "source_task": ("Learnt from the task", revision.source_task),
        "names": ("Found by the names", ", ".join((revision.names or "").split())),
        "client": ("Client", client),
        "support": ("Runs", support if heuristic.support else ""),
        "usefulness": ("Usefulness", f"{heuristic.usefulness:.2f} (0.5 if nothing is known)"),
        "limits": ("Limits", "; ".join(_find_limits(revision))),
    }
    return [Fact(name=name, label=label, text=text) for name, (label, text) in said.items()]


def _find_limits(revision: HeuristicRevision) -> list[str]:
    name = {"works": "max_works_share", "avoid": "max_avoid_share"}.get(revision.polarity)
    if name is None:
        return []
    quotas = PolarityQuota.objects.filter(project=revision.project_id, **{f"{name}__isnull": False})
    families: list[tuple[str, Any]] = [(quota.task_id, getattr(quota, name)) for quota in quotas]
    return [
        f"at most {share:.0%} of an answer {f'in the family {family}' if family else 'in other families'}"
        for family, share in families
    ]


def _find_source_tasks(heuristic: Heuristic) -> list[LeadingTask]:
    """Return the different tasks of the evidence, newest first; one that counts by any run of it counts."""
    rows = (
        find_group_evidence(heuristic)
        .order_by("-created_at")
        .values_list(
            "trajectory__task",
            "trajectory_id",
            "trajectory__client",
            "trajectory__agent",
            "approved_by",
            "approved_at",
        )
    )
    found: dict[str, LeadingTask] = {}
    for task, run, client, agent, approved_by, approved_at in rows:
        if task not in found or (approved_at is not None and not found[task].counts):
            found[task] = LeadingTask(
                task=task,
                trajectory_id=run,
                client=client,
                agent=agent,
                counts=approved_at is not None,
                approved_by=approved_by,
                approved_at=approved_at,
            )
    return list(found.values())


def _find_helped_tasks(revision: HeuristicRevision) -> list[LeadingTask]:
    rows = HeuristicEmbedding.objects.filter(revision=revision, kind=_Kind.HELPED_TASK, trajectory__isnull=False)
    names = ("trajectory__task", "trajectory_id", "trajectory__client", "trajectory__agent")
    return [
        LeadingTask(task=task, trajectory_id=run, client=client, agent=agent, counts=True, helped=True)
        for task, run, client, agent in rows.order_by("id").values_list(*names)
    ]
