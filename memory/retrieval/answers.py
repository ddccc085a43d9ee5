"""Answer a task with lessons, and write down what was answered."""

import time
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Required, TypedDict, Unpack

import orjson
from django.conf import settings
from django.utils import timezone

from memory.ids import uuid7
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.retrieval.answer import Filters, RetrievalAnswer
from memory.retrieval.boundary import add_boundary
from memory.retrieval.choosing import Chosen, Question, choose_lessons, get_default_mode
from memory.retrieval.context import Context, build_context
from memory.retrieval.database import execute_prepared
from memory.retrieval.known import KNOWN_TASKS, Known
from memory.retrieval.models import Retrieval
from memory.retrieval.places import Ranked
from memory.retrieval.record import NO_RECORD, get_cost, join_blocks
from memory.retrieval.record_rows import ask_record, write_record

_Mode = Retrieval.Mode
NO_FILTERS = Filters()
NO_DATABASE = "database"
MATCHED_TASK_CHARACTERS = 120  # of it are kept with the answer
MOST_KEPT_CHARACTERS = 100_000  # of an answer, so that it is given again without being written again
_known_writings: Known[tuple[Chosen, "_Written"]] = Known(KNOWN_TASKS)  # with what the number in the key names

_LOG = """
INSERT INTO memory_retrieval (id, project_id, task, task_id, agent, mode, requested_mode, top_k, budget_tokens,
    options, candidate_count, heuristic_ids, injected_ids, items, considered_ids, considered_scores, subtasks,
    record_text, context_sha256, tokens, degraded, duration_ms, client, api_key_id, request_id, created_at)
VALUES (%(id)s, %(project)s, %(task)s, %(task_id)s, %(agent)s, %(mode)s, %(requested_mode)s, %(top_k)s,
    %(budget_tokens)s, %(options)s, %(candidate_count)s, %(heuristic_ids)s, %(injected_ids)s, %(items)s,
    %(considered_ids)s, %(considered_scores)s, %(subtasks)s, %(record_text)s, %(context_sha256)s, %(tokens)s,
    %(degraded)s, %(duration_ms)s, %(client)s, %(api_key)s, %(request_id)s, %(created_at)s)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """An answer that is not written down yet, and the row that it will be."""

    answer: RetrievalAnswer
    row: dict[str, Any]


class Asked(TypedDict, total=False):
    """The arguments of `prepare_answer`."""

    task: Required[str]
    task_id: str
    agent: str
    top_k: int | None
    mode: str | None
    budget_tokens: int | None
    filters: Filters
    seed: str | None
    record: bool
    random_boundary: bool
    by: Required[Actor]
    client: str
    request_id: str


def retrieve(project: Project, **question: Unpack[Asked]) -> RetrievalAnswer:
    """Answer a task with lessons, and write down what was answered. The arguments are those of `prepare_answer`."""
    return record_answer(prepare_answer(project, **question))


def record_answer(prepared: Prepared) -> RetrievalAnswer:
    """Write an answer down and return it. One statement; a transaction may be open."""
    execute_prepared(_LOG, prepared.row)
    return prepared.answer


def prepare_empty_answer(prepared: Prepared, requested_mode: str) -> Prepared:
    """Return an answer of mode none as one that has nothing because the database was not to be had."""
    answer = replace(prepared.answer, degraded=NO_DATABASE)
    row = prepared.row | {"degraded": NO_DATABASE, "requested_mode": requested_mode or _Mode.HYBRID}
    return Prepared(answer=answer, row=row)


def prepare_answer(
    project: Project,
    *,
    task: str,
    task_id: str = "",
    agent: str = "",
    top_k: int | None = None,
    mode: str | None = None,
    budget_tokens: int | None = None,
    filters: Filters = NO_FILTERS,
    seed: str | None = None,
    record: bool = True,
    random_boundary: bool = False,
    by: Actor,
    client: str = "",
    request_id: str = "",
) -> Prepared:
    """Choose lessons for a task among those that are served, best first, and write the block to inject.

    Args:
        task: the new task, in the words the agent was given.
        task_id: its family; lessons of the family come first among equals, others are not excluded.
        agent: who asks; kept in the record.
        top_k: most lessons to return; None takes ERL_RETRIEVE_TOP_K.
        mode: how to choose; None takes ERL_RETRIEVE_MODE. "none" answers nothing, as a control group needs it.
        budget_tokens: size of the whole block; None takes ERL_CONTEXT_BUDGET_TOKENS for the lessons and adds the
            record's own budget.
        record: begin the block with what is known of earlier runs: rules, mistakes, scores.
        random_boundary: delimit the block by words that nobody can know beforehand; its bytes then differ every time.
        seed: for mode "random"; None takes the task itself, so that a task always draws the same lessons.

    Services may be asked over the network: call it with no transaction open. Where one does not answer, the next best
    thing does, and `degraded` says so (A16).
    """
    started = time.perf_counter()
    task = redact(task).value  # as stored texts are: a secret in a task meets the same placeholder in a lesson
    requested = mode or get_default_mode()
    top_k = settings.ERL_RETRIEVE_TOP_K if top_k is None else top_k
    asked = ask_record(project, task_id=task_id, agent=agent, budget_tokens=budget_tokens) if record else None
    question = Question(task=task, task_id=task_id, top_k=top_k, filters=filters, seed=seed, beside=asked)
    chosen = choose_lessons(project, question, mode=requested)
    mode, degraded = chosen.mode, ", ".join(chosen.missing)
    known = write_record(asked) if mode != _Mode.NONE else NO_RECORD
    lesson_tokens = settings.ERL_CONTEXT_BUDGET_TOKENS if budget_tokens is None else budget_tokens - get_cost(known)
    written = _write(chosen, known, lesson_tokens)
    context = written.context
    retrieval_id = uuid7()
    if random_boundary:
        context = add_boundary(context, retrieval_id=retrieval_id)
    answer = RetrievalAnswer(
        retrieval_id=retrieval_id,
        mode=mode,
        degraded=degraded,
        items=written.items,
        items_json=written.items_json,
        context=context.text,
        context_sha256=context.sha256,
        tokens=context.tokens,
        candidate_count=chosen.candidate_count,
        subtasks=list(chosen.subtasks),
        duration_ms=(time.perf_counter() - started) * 1000,
    )
    row = {
        "id": answer.retrieval_id,
        "project": project.pk,
        "task": task,
        "task_id": task_id,
        "agent": agent,
        "mode": mode,
        "requested_mode": requested,
        "top_k": top_k,
        "budget_tokens": lesson_tokens + get_cost(known),
        "options": _write_options(filters, seed=seed, record=record, random_boundary=random_boundary),
        "candidate_count": chosen.candidate_count,
        **written.columns,
        "subtasks": list(chosen.subtasks),
        "record_text": known.text,
        "context_sha256": context.sha256,
        "tokens": context.tokens,
        "degraded": degraded,
        "duration_ms": answer.duration_ms,
        "client": client or by.label,
        "api_key": by.api_key_id,
        "request_id": request_id,
        "created_at": timezone.now(),
    }
    return Prepared(answer=answer, row=row)


def _write_options(filters: Filters, *, seed: str | None, record: bool, random_boundary: bool) -> str:
    """Write down what else was asked, only what is not as usual, and without secrets, as the task is.

    By the names of the API, but for `polarities`: a command may name several.
    """
    if filters == NO_FILTERS and seed is None and record and not random_boundary:
        return "{}"
    asked = {
        "tags": filters.tags,
        "families": filters.task_ids,
        "source_agents": filters.agents,
        "polarities": filters.polarities,
        "seed": seed,
        "record": None if record else False,
        "boundary": "random" if random_boundary else None,
    }
    unusual = {name: value for name, value in asked.items() if value not in ((), None)}
    return orjson.dumps(redact(unusual).value).decode()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Written:
    """What an answer says of the lessons chosen, for the client and for the record. Answers share it: only read it."""

    items: list[dict[str, Any]]
    items_json: str
    context: Context
    columns: dict[str, str]


def _write(chosen: Chosen, known: Context, lesson_tokens: int) -> _Written:
    """Write the lessons chosen, once for all who are given the same ones with the same record of earlier runs."""
    key = (id(chosen), known, lesson_tokens)
    if (before := _known_writings.find(key)) is not None:
        return before[1]
    items = [_as_item(place) for place in chosen.ranked]
    places = [*zip(items, chosen.ranked, strict=True)]
    fitting = [item for item, place in places if place.fits and item["id"] not in known.ids]
    values = {item["id"]: place.value for item, place in places}
    context = join_blocks(known, build_context(fitting, budget_tokens=lesson_tokens, values=values))
    for item in items:
        item["injected"] = item["id"] in context.ids
    columns = {
        "heuristic_ids": _as_array(item["id"] for item in items),
        "injected_ids": _as_array(_order_injected(items, context)),
        "items": orjson.dumps([_as_record(item, chosen.subtasks, known.ids) for item in items]).decode(),
        "considered_ids": _as_array(candidate.heuristic_id.hex for candidate, _ in chosen.considered),
        "considered_scores": _as_array(repr(round(score, 4)) for _, score in chosen.considered),
    }
    items_json = orjson.dumps(items).decode()
    written = _Written(items=items, items_json=items_json, context=context, columns=columns)
    if len(context.text) + len(columns["items"]) + len(items_json) <= MOST_KEPT_CHARACTERS:
        _known_writings.keep(key, (chosen, written))
    return written


def _order_injected(items: Sequence[dict[str, Any]], context: Context) -> list[str]:
    """Return the ids of what stands in the block: rules of the record that no search chose, then the lessons."""
    lessons = [item["id"] for item in items if item["injected"]]
    return [*sorted(context.ids.difference(lessons)), *lessons]


def _as_array(values: Iterable[str]) -> str:
    """Write ids or numbers as PostgreSQL reads an array: the driver takes four times as long for a list."""
    return "{" + ",".join(values) + "}"


def _as_item(place: Ranked) -> dict[str, Any]:
    chosen = place.candidate
    return {
        "id": str(chosen.heuristic_id),
        "revision": chosen.number,
        "content_sha256": chosen.content_sha256,
        "trigger": chosen.trigger,
        "guideline": chosen.guideline,
        "avoid": chosen.avoid,
        "not_when": chosen.not_when,
        "rationale": chosen.rationale,
        "polarity": chosen.polarity,
        "task_id": chosen.task_id,
        "tags": chosen.tags,
        "support": chosen.support,
        "scores": place.scores,
        "reason": place.reason,
        "subtask": place.subtask,
        "matched_task": chosen.matched_task,
    }


def _as_record(item: dict[str, Any], subtasks: Sequence[str], in_record: Set[str]) -> dict[str, Any]:
    recorded = ("revision", "content_sha256", "scores", "reason", "injected")
    part = subtasks.index(item["subtask"]) + 1 if item["subtask"] in subtasks else 0
    return (
        {"heuristic": item["id"]}
        | {name: item[name] for name in recorded}
        | {"subtask": part, "matched_task": shorten(item["matched_task"])}
        | ({"in_record": True} if item["id"] in in_record else {})
    )


def shorten(task: str) -> str:
    """Return the beginning of a task, so that one sees where it was cut."""
    return task if len(task) <= MATCHED_TASK_CHARACTERS else f"{task[: MATCHED_TASK_CHARACTERS - 1].rstrip()}…"
