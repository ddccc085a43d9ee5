"""A past answer as it was given: the injected block, written again from the record."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models.functions import Left

from memory.heuristics.models import HeuristicRevision
from memory.retrieval.context import FORMER_HEADERS, HEADER, build_context, write_boundary
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory

MATCHED_TASK_CHARACTERS = 120  # are shown of it
_WHOLE = 10**9  # tokens: what was injected fitted


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedBlock:
    """The block of an answer. `exact` says that its hash is the one that was recorded when it was injected."""

    text: str
    exact: bool


def replay_block(retrieval: Retrieval, revisions: Iterable[HeuristicRevision] | None = None) -> ReplayedBlock:
    """Write the injected block again, from the words that were served then. One query, or none with `revisions`.

    Wordings never change, so the bytes are the same; they are not where a lesson or a run was erased since.
    """
    wordings = find_wordings(retrieval) if revisions is None else revisions
    by_key = {(str(wording.heuristic_id), wording.number): wording for wording in wordings}
    lessons = [
        _as_lesson(by_key[key])
        for item in retrieval.items
        if item["injected"] and not item.get("in_record") and (key := (item["heuristic"], item["revision"])) in by_key
    ]
    text = ""
    # The header is code and may have changed since; the recorded hash tells which one it was.
    for header in (HEADER, *FORMER_HEADERS):
        block = build_context(lessons, budget_tokens=_WHOLE, header=header).text
        text = "\n".join(part for part in (retrieval.record_text, block) if part)
        # Nor is it recorded whether the delimiters had a boundary.
        for written in (text, write_boundary(text, retrieval_id=retrieval.pk)):
            if hashlib.sha256(written.encode()).hexdigest() == retrieval.context_sha256:
                return ReplayedBlock(text=written, exact=True)
    return ReplayedBlock(text=text, exact=False)


def find_wordings(retrieval: Retrieval) -> list[HeuristicRevision]:
    """Return the wordings an answer returned, as far as they still exist."""
    numbers = {item["heuristic"]: item["revision"] for item in retrieval.items}
    revisions = HeuristicRevision.objects.filter(project=retrieval.project_id, heuristic__in=list(numbers))
    return [
        revision
        for revision in revisions.select_related("heuristic")
        if numbers[str(revision.heuristic_id)] == revision.number
    ]


def find_injected_wordings(retrievals: Iterable[Retrieval]) -> dict[UUID, list[HeuristicRevision]]:
    """Return the wordings in the block of each answer, in order, as far as they still exist. One query."""
    injected = {
        answer.pk: [(UUID(item["heuristic"]), item["revision"]) for item in answer.items if item["injected"]]
        for answer in retrievals
    }
    wanted = {heuristic_id for keys in injected.values() for heuristic_id, _ in keys}
    wordings = {
        (wording.heuristic_id, wording.number): wording
        for wording in HeuristicRevision.objects.filter(heuristic__in=wanted)
    }
    return {pk: [wordings[key] for key in keys if key in wordings] for pk, keys in injected.items()}


def describe_items(retrieval: Retrieval, revisions: Iterable[HeuristicRevision]) -> list[dict[str, Any]]:
    """Return the recorded items with words for what the record names by number: the part of the task, and the matched
    task. The latter is empty once its run was erased. One query."""
    tasks = _find_tasks(item.get("matched_run") for item in retrieval.items)
    own = {str(revision.heuristic_id): revision.source_task for revision in revisions}
    described = []
    for item in retrieval.items:
        run = item.get("matched_run")
        task = _cut(tasks.get(run, "") if run else own.get(item["heuristic"], ""))
        kept = {"passed_over": ""} | {name: value for name, value in item.items() if name != "matched_run"}
        described.append(kept | {"subtask": _name_subtask(retrieval, item), "matched_task": task})
    return described


def _find_tasks(runs: Iterable[str | None]) -> dict[str, str]:
    trajectories = Trajectory.objects.filter(pk__in={run for run in runs if run})
    # One more than is shown, so that it is known where a task was cut.
    beginnings = trajectories.values_list("pk", Left("task", MATCHED_TASK_CHARACTERS + 1))
    return {str(run): task for run, task in beginnings}


def _cut(task: str) -> str:
    """Shorten a task so that one sees where it was cut."""
    if len(task) <= MATCHED_TASK_CHARACTERS:
        return task
    return f"{task[: MATCHED_TASK_CHARACTERS - 1].rstrip()}…"


def _name_subtask(retrieval: Retrieval, item: dict[str, Any]) -> str:
    """Return the part of the task that a recorded item serves, in words; empty for the whole."""
    number = item.get("subtask", 0)
    return retrieval.subtasks[number - 1] if 1 <= number <= len(retrieval.subtasks) else ""


def _as_lesson(revision: HeuristicRevision) -> dict[str, Any]:
    texts = {name: getattr(revision, name) for name in ("trigger", "guideline", "avoid", "not_when")}
    return {"id": str(revision.heuristic_id), **texts}
