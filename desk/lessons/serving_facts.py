"""Where agents get a lesson: everything besides its words that decides that, as the desk shows it.

A test compares these names with what retrieval may read of a lesson (memory/sql/serving.sql) and with what the hash
covers: a column that is added there and not shown fails it.
"""

from typing import Any

from django.conf import settings
from django.utils.text import Truncator

from desk.shell.word_diff import write_days
from memory.curation.proposal_groups import find_group_evidence
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import RULE_TAG
from memory.retrieval.models import HeuristicEmbedding, PolarityQuota
from memory.retrieval.safe_text import needs_cleaning

SHOWN_TASKS = 100
_WORDS = ("trigger", "guideline", "avoid", "not_when", "rationale")
_Kind = HeuristicEmbedding.Kind


def describe_serving(heuristic: Heuristic, revision: HeuristicRevision) -> dict[str, Any]:
    """Collect where a wording is given once it is approved: warnings, facts, and the tasks that lead to it. 3 queries.

    The tasks that do not count yet, since no reviewer has seen them, come first; `waiting` is how many they are.
    """
    tasks = [*_find_source_tasks(heuristic), *_find_helped_tasks(revision)]
    tasks.sort(key=lambda task: task["counts"])
    facts = [{"name": name, "label": label, "text": text} for name, label, text in _list_facts(heuristic, revision)]
    return {
        "warnings": _warn(revision, tasks),
        "facts": [fact for fact in facts if fact["text"]],
        "tasks": tasks[:SHOWN_TASKS],
        "tasks_not_shown": max(0, len(tasks) - SHOWN_TASKS),
        "waiting": sum(not task["counts"] for task in tasks[:SHOWN_TASKS]),
    }


def _warn(revision: HeuristicRevision, tasks: list[dict[str, Any]]) -> list[str]:
    warnings = []
    if RULE_TAG in revision.tags:
        whole = revision.scope == HeuristicRevision.Scope.PROJECT
        where = "of the project" if whole else f"of the family {revision.task_id}"
        if whole or revision.task_id:
            warnings.append(f"Given with every task {where}, without a search: it has the tag “{RULE_TAG}”.")
    elif revision.scope == HeuristicRevision.Scope.PROJECT:
        warnings.append("Given in every task family of the project, where it fits.")
    if revision.is_over:
        warnings.append(f"It expired on {revision.ends_at:%Y-%m-%d}, so agents are no longer given it.")
    if needs_cleaning(*(getattr(revision, name) for name in _WORDS)):
        warnings.append(
            "Contains hidden or control characters, or a chat template's end-of-turn marker. Agents get it without "
            "them."
        )
    source = revision.source_task
    if source and not any(task["task"].startswith(source) for task in tasks):
        warnings.append(
            f"Agents get it first for tasks like “{Truncator(source).chars(120)}”: its author named that task, but "
            "none of its runs had it."
        )
    return warnings


def _describe_age(revision: HeuristicRevision) -> str:
    return "" if revision.expires_after is None else f"{write_days(revision.expires_after)} after its approval"


def _list_facts(heuristic: Heuristic, revision: HeuristicRevision) -> list[tuple[str, str, str]]:
    """Return what decides where a lesson is given: the field's name, what people call it, and what it is."""
    most = settings.ERL_RETRIEVE_MAX_PER_SOURCE
    client = heuristic.client
    if client and most:
        client += f" (at most {most} of an answer)"
    support = f"{heuristic.approved_support} of {heuristic.support} count in ranking" if heuristic.support else ""
    limits = []
    share = {"works": "max_works_share", "avoid": "max_avoid_share"}.get(revision.polarity)
    if share is not None:
        quotas = PolarityQuota.objects.filter(project=revision.project_id, **{f"{share}__isnull": False})
        for quota in quotas:
            where = f"in the family {quota.task_id}" if quota.task_id else "in other families"
            limits.append(f"at most {getattr(quota, share):.0%} of an answer {where}")
    facts = {
        "polarity": ("Kind", revision.get_polarity_display()),
        "scope": ("Scope", revision.get_scope_display().capitalize()),
        "task_id": ("Task family", revision.task_id or "none"),
        "tags": ("Tags", ", ".join(revision.tags) or "none"),
        "source_task": ("Learnt from the task", revision.source_task),
        "valid_until": ("Valid until", f"{revision.valid_until:%Y-%m-%d %H:%M %Z}" if revision.valid_until else ""),
        "expires_after": ("Expires", _describe_age(revision)),
        "names": ("Found by the names", ", ".join((revision.names or "").split())),
        "client": ("Client", client),
        "support": ("Runs", support),
        "usefulness": ("Usefulness", f"{heuristic.usefulness:.2f} (0.5 if nothing is known)"),
        "limits": ("Limits", "; ".join(limits)),
    }
    return [(name, label, text) for name, (label, text) in facts.items()]


def _find_source_tasks(heuristic: Heuristic) -> list[dict[str, Any]]:
    """Return the different tasks of the evidence, newest first; one that counts by any run of it counts."""
    names = ("trajectory__task", "trajectory_id", "trajectory__client", "trajectory__agent")
    rows = find_group_evidence(heuristic).order_by("-created_at").values_list(*names, "approved_by", "approved_at")
    tasks: dict[str, dict[str, Any]] = {}
    for task, run, client, agent, approved_by, approved_at in rows:
        counts = approved_at is not None
        if task not in tasks or (counts and not tasks[task]["counts"]):
            tasks[task] = {
                "task": task,
                "trajectory_id": run,
                "client": client,
                "agent": agent,
                "counts": counts,
                "approved_by": approved_by,
                "approved_at": approved_at,
            }
    return list(tasks.values())


def _find_helped_tasks(revision: HeuristicRevision) -> list[dict[str, Any]]:
    """Return the tasks of runs that the lesson helped."""
    rows = HeuristicEmbedding.objects.filter(revision=revision, kind=_Kind.HELPED_TASK, trajectory__isnull=False)
    names = ("trajectory__task", "trajectory_id", "trajectory__client", "trajectory__agent")
    return [
        {"task": task, "trajectory_id": run, "client": client, "agent": agent, "counts": True, "helped": True}
        for task, run, client, agent in rows.order_by("id").values_list(*names)
    ]
