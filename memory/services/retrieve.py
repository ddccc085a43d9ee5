"""Answer a task with lessons, and write down what was answered."""

import time
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.utils import timezone
from psycopg.types.json import Jsonb

from memory.errors import EmbedderError
from memory.ids import uuid7
from memory.models import Project, Retrieval
from memory.redaction import redact
from memory.retrieval.answer import Filters, RetrievalAnswer
from memory.retrieval.candidates import Candidate, draw_candidates, find_candidates, get_meaning_weight
from memory.retrieval.context import build_context
from memory.retrieval.database import execute_prepared
from memory.retrieval.ranking import Ranked, rank, rank_as_drawn
from memory.retrieval.record import NO_RECORD, get_cost, join_blocks
from memory.retrieval.record_rows import write_record
from memory.retrieval.task_vector import active_model, embed_task
from memory.values import Actor

log = structlog.get_logger(__name__)

_Mode = Retrieval.Mode
NO_FILTERS = Filters()
CANDIDATES = 50

_LOG = """
INSERT INTO memory_retrieval (id, project_id, task, task_id, agent, mode, requested_mode, top_k, budget_tokens,
    candidate_count, heuristic_ids, items, considered_ids, considered_scores, subtasks, context_sha256, tokens, degraded, duration_ms, client, api_key_id,
    request_id, created_at)
VALUES (%(id)s, %(project)s, %(task)s, %(task_id)s, %(agent)s, %(mode)s, %(requested_mode)s, %(top_k)s,
    %(budget_tokens)s, %(candidate_count)s, %(heuristic_ids)s, %(items)s, %(considered_ids)s, %(considered_scores)s,
    %(subtasks)s, %(context_sha256)s, %(tokens)s, %(degraded)s, %(duration_ms)s, %(client)s, %(api_key)s, %(request_id)s, %(created_at)s)
"""


def retrieve(
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
    by: Actor,
    client: str = "",
    request_id: str = "",
) -> RetrievalAnswer:
    """Choose lessons for a task among those that are served, best first, and write the block to inject.

    Args:
        task: the new task, in the words the agent was given.
        task_id: its family; lessons of the family come first among equals, others are not excluded.
        agent: who asks; kept in the record.
        top_k: most lessons to return; None takes ERL_RETRIEVE_TOP_K.
        mode: how to choose; None stands for hybrid. "none" answers nothing, as a control group needs it.
        budget_tokens: size of the whole block; None takes ERL_CONTEXT_BUDGET_TOKENS for the lessons and adds the
            record's own budget.
        record: begin the block with what is known of earlier runs: rules, mistakes, scores.
        seed: for mode "random"; None takes the task itself, so that a task always draws the same lessons.

    Where the embedder does not answer, full text does, and `degraded` says so (A16).
    """
    started = time.perf_counter()
    task = redact(task).value  # as stored texts are: a secret in a task meets the same placeholder in a lesson
    requested = mode or _Mode.HYBRID
    top_k = settings.ERL_RETRIEVE_TOP_K if top_k is None else top_k
    ranked, count, mode, degraded = _choose(
        project, task=task, task_id=task_id, top_k=top_k, mode=requested, filters=filters, seed=seed
    )
    items = [_as_item(place) for place in ranked]
    known = NO_RECORD
    if record and mode != _Mode.NONE:
        known = write_record(project, task_id=task_id, agent=agent, budget_tokens=budget_tokens)
    fitting = [i for i, place in zip(items, ranked, strict=True) if place.fits and i["id"] not in known.ids]
    lesson_tokens = settings.ERL_CONTEXT_BUDGET_TOKENS if budget_tokens is None else budget_tokens - get_cost(known)
    context = join_blocks(known, build_context(fitting, budget_tokens=lesson_tokens))
    for item in items:
        item["injected"] = item["id"] in context.ids
    answer = RetrievalAnswer(
        retrieval_id=uuid7(),
        mode=mode,
        degraded=degraded,
        items=items,
        context=context.text,
        context_sha256=context.sha256,
        tokens=context.tokens,
        candidate_count=count,
        duration_ms=(time.perf_counter() - started) * 1000,
    )
    execute_prepared(
        _LOG,
        {
            "id": answer.retrieval_id,
            "project": project.pk,
            "task": task,
            "task_id": task_id,
            "agent": agent,
            "mode": mode,
            "requested_mode": requested,
            "top_k": top_k,
            "budget_tokens": lesson_tokens + get_cost(known),
            "candidate_count": count,
            "heuristic_ids": [place.candidate.heuristic_id for place in ranked],
            "items": Jsonb([_as_record(item) for item in items]),
            "considered_ids": [],
            "considered_scores": [],
            "subtasks": [],
            "context_sha256": context.sha256,
            "tokens": context.tokens,
            "degraded": degraded,
            "duration_ms": answer.duration_ms,
            "client": client or by.label,
            "api_key": by.api_key_id,
            "request_id": request_id,
            "created_at": timezone.now(),
        },
    )
    return answer


def _choose(
    project: Project, *, task: str, task_id: str, top_k: int, mode: str, filters: Filters, seed: str | None
) -> tuple[list[Ranked], int, str, str]:
    """Return the chosen lessons, how many were considered, the mode that answered and what was missing."""
    if mode == _Mode.NONE or top_k == 0:
        return [], 0, _Mode.NONE, ""
    if mode == _Mode.RANDOM:
        drawn = draw_candidates(project.pk, seed=seed or task, filters=filters, limit=top_k)
        return rank_as_drawn(drawn), len(drawn), mode, ""
    missing = []
    if mode == _Mode.ERL:
        mode = _Mode.HYBRID
        missing.append("language model")
    found, mode, without = _search(project, task=task, mode=mode, filters=filters, limit=max(CANDIDATES, 2 * top_k))
    missing += without
    return rank(found, task_id=task_id, top_k=top_k, mode=mode), len(found), mode, ", ".join(missing)


def _search(
    project: Project, *, task: str, mode: str, filters: Filters, limit: int
) -> tuple[list[Candidate], str, list[str]]:
    """Return the candidates, the mode they were found in and what was missing."""
    search = partial(find_candidates, project.pk, text=task, filters=filters, limit=limit)
    missing = "embedder"
    for _ in range(2 if mode != _Mode.LEXICAL else 0):
        try:
            model_id, vector = embed_task(task)
        except EmbedderError as error:
            log.warning("task_not_embedded", reason=str(error))
            break
        found = search(
            vector=vector,
            model_id=model_id,
            meaning_weight=1.0 if mode == _Mode.EMBEDDING else get_meaning_weight(task),
        )
        if not found or any(candidate.meaning is not None for candidate in found):
            return found, mode, []
        # Another model became active a moment ago, or the vectors are not made yet.
        missing = "vectors"
        active_model.forget()
    degraded = [missing] if mode != _Mode.LEXICAL else []
    return search(vector=None, model_id="", meaning_weight=0.0), _Mode.LEXICAL, degraded


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
        "matched_task": chosen.matched_task,
    }


def _as_record(item: dict[str, Any]) -> dict[str, Any]:
    recorded = ("revision", "content_sha256", "scores", "reason", "injected")
    return {"heuristic": item["id"]} | {name: item[name] for name in recorded}
