"""Answer a task with lessons, and write down what was answered.

The way of a question: the state of its project → the vector of the task → candidates → ranking → block → row.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any
from uuid import UUID

import orjson
from django.utils import timezone

from memory.ids import uuid7
from memory.limits import DEFAULT_BUDGET_TOKENS, DEFAULT_TOP_K
from memory.redaction import redact
from memory.retrieval.assignment import NOT_EXPOSED, Exposure, ReleaseSettings, ServedArm, expose, read_release_settings
from memory.retrieval.context import Context, add_boundary, build_context
from memory.retrieval.database import execute_prepared, read_prepared, reading_as_of
from memory.retrieval.models import Retrieval
from memory.retrieval.project_state import ProjectState, read_state
from memory.retrieval.question import NO_FILTERS, Question
from memory.retrieval.ranking import Ranked
from memory.retrieval.record_block import (
    NO_RECORD,
    ask_record,
    build_record,
    get_cost,
    get_record_budget,
    join_blocks,
    read_material,
)
from memory.retrieval.safe_text import clean_lines
from memory.retrieval.selection import NO_SELECTION, Selection, get_default_mode, select_heuristics
from memory.transcripts.lesson_blocks import read_task

_Mode = Retrieval.Mode
NO_DATABASE = "database"
NO_ROOM = "There was no room for it."
_WORDS = ("trigger", "guideline", "avoid", "not_when", "rationale")
FINISHED_ANSWERS = 128  # kept by each process: a task that is asked again costs a third of a new one
MOST_KEPT_CHARACTERS = 100_000  # of one of them

_LOG = """
INSERT INTO memory_retrieval (id, project_id, task, task_id, agent, mode, requested_mode, top_k, budget_tokens,
    options, candidate_count, heuristic_ids, injected_ids, items, considered_ids, considered_scores, subtasks,
    record_text, context_sha256, tokens, degraded, duration_ms, client, api_key_id, request_id, arm, release_id, unit,
    bucket, deployment_version, created_at)
VALUES (%(id)s, %(project)s, %(task)s, %(task_id)s, %(agent)s, %(mode)s, %(requested_mode)s, %(top_k)s,
    %(budget_tokens)s, %(options)s, %(candidate_count)s, %(heuristic_ids)s, %(injected_ids)s, %(items)s,
    %(considered_ids)s, %(considered_scores)s, %(subtasks)s, %(record_text)s, %(context_sha256)s, %(tokens)s,
    %(degraded)s, %(duration_ms)s, %(client)s, %(api_key)s, %(request_id)s, %(arm)s, %(release)s, %(unit)s, %(bucket)s,
    %(deployment_version)s, %(created_at)s)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalAnswer:
    """Lessons for a task, best first, and the text to inject.

    `listed` is ready for JSON: id, revision, content_sha256, trigger, guideline, avoid, not_when, rationale,
    polarity, task_id, tags, support, scores (by component), reason (one sentence), subtask (the part of the task it
    serves), matched_task, injected (whether it is in the context), and passed_over (why it is not). `items` are those
    that were injected, `considered` the others; `items_json` is `items` as text. `degraded` says what was not available
    and is empty when all was. `tokens` counts the context. `release` is the number of the release it is from, `arm` the
    arm of the deployment.
    """

    retrieval_id: UUID
    mode: str
    degraded: str = ""
    listed: list[dict[str, Any]] = field(default_factory=list)
    items_json: str = "[]"
    context: str = ""
    context_sha256: str = ""
    tokens: int = 0
    candidate_count: int = 0
    subtasks: list[str] = field(default_factory=list)
    duration_ms: float = 0.0
    recorded: bool = True
    release: int | None = None
    arm: str = ""

    @property
    def items(self) -> list[dict[str, Any]]:
        return [item for item in self.listed if item["injected"]]

    @property
    def considered(self) -> list[dict[str, Any]]:
        return [item for item in self.listed if not item["injected"]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """An answer that is not written down yet, and the row that it will be; None if there is no time to write it."""

    answer: RetrievalAnswer
    row: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Written:
    """What an answer says, for the client and for the row. Answers share it: only read it."""

    selection: Selection
    record: Context
    listed: list[dict[str, Any]]
    items_json: str
    context: Context
    budget_tokens: int
    columns: dict[str, str]
    mode: str
    top_k: int


def retrieve(question: Question) -> RetrievalAnswer:
    """Answer a task with lessons, and write down what was answered."""
    return record_answer(prepare_answer(question))


def record_answer(prepared: Prepared) -> RetrievalAnswer:
    """Write an answer down, if there is time, and return it. One statement; a transaction may be open."""
    if prepared.row is None:
        return replace(prepared.answer, recorded=False)
    execute_prepared(_LOG, prepared.row)
    return prepared.answer


def prepare_empty_answer(question: Question, *, is_late: bool) -> Prepared:
    """Return an answer that has nothing because there is no database. Asks the database nothing.

    Args:
        is_late: so much time is lost that the database is not asked to store the answer either.
    """
    prepared = prepare_answer(replace(question, mode=_Mode.NONE))
    answer = replace(prepared.answer, degraded=NO_DATABASE)
    if is_late or prepared.row is None:
        return Prepared(answer=answer, row=None)
    # What was asked for stays on record, although the answer was made in mode none.
    row = prepared.row | {"degraded": NO_DATABASE, "requested_mode": question.mode or _Mode.HYBRID}
    return Prepared(answer=answer, row=row)


def prepare_answer(question: Question) -> Prepared:
    """Choose lessons for a task among those that are served, best first, and write the block to inject.

    Services may be asked over the network: call it with no transaction open. If one does not answer, the next best
    method does, and `degraded` says so (A16).
    """
    started = time.perf_counter()
    # Redacted as stored texts are, so that a secret in a task meets the same placeholder in a lesson.
    question = replace(question, task=redact(read_task(question.task)).value)
    choice = _Choice.of(question)
    if choice.is_nothing:
        written, exposure = _write(question, NO_SELECTION, NO_RECORD, choice), NOT_EXPOSED
    else:
        written, exposure = _find_or_write(question, choice)
    selection, context, retrieval_id = written.selection, written.context, uuid7()
    # Only here: a finished answer is shared, and a boundary belongs to one retrieval.
    if question.random_boundary:
        context = add_boundary(context, retrieval_id=retrieval_id)
    answer = RetrievalAnswer(
        retrieval_id=retrieval_id,
        mode=selection.mode,
        degraded=", ".join(selection.missing),
        listed=written.listed,
        items_json=written.items_json,
        context=context.text,
        context_sha256=context.sha256,
        tokens=context.tokens,
        candidate_count=selection.candidate_count,
        subtasks=[clean_lines(part) for part in selection.subtasks],
        duration_ms=(time.perf_counter() - started) * 1000,
        release=read_release_settings(exposure.release_id).number if exposure.release_id is not None else None,
        arm=exposure.arm,
    )
    row = {
        "id": answer.retrieval_id,
        "project": question.project.pk,
        "task": question.task,
        "task_id": question.task_id,
        "agent": question.agent,
        "mode": answer.mode,
        "requested_mode": written.mode,
        "top_k": written.top_k,
        "budget_tokens": written.budget_tokens,
        "options": _write_options(question),
        "candidate_count": answer.candidate_count,
        **written.columns,
        "subtasks": answer.subtasks,
        "record_text": written.record.text,
        "context_sha256": context.sha256,
        "tokens": context.tokens,
        "degraded": answer.degraded,
        "duration_ms": answer.duration_ms,
        "client": question.client or question.by.label,
        "api_key": question.by.api_key_id,
        "request_id": question.request_id,
        "arm": exposure.arm,
        "release": exposure.release_id,
        "unit": exposure.unit,
        "bucket": exposure.bucket,
        "deployment_version": exposure.version,
        "created_at": timezone.now(),
    }
    return Prepared(answer=answer, row=row)


class FinishedAnswers:
    """What was answered to the questions asked last, each with the state of the project it holds for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[Any, tuple[ProjectState, _Written]] = OrderedDict()

    def find(self, key: Any) -> tuple[ProjectState, _Written] | None:
        """Return what was answered, in whatever state the project was then."""
        with self._lock:
            if (answer := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
            return answer

    def keep(self, key: Any, state: ProjectState, written: _Written) -> None:
        """Keep an answer unless it is long, and forget the one that was not asked for the longest."""
        texts = (written.context.text, written.columns["items"], written.items_json, orjson.dumps(state.record))
        # A long answer would take the room of many short ones.
        if sum(map(len, texts)) > MOST_KEPT_CHARACTERS:
            return
        with self._lock:
            self._kept[key] = state, written
            self._kept.move_to_end(key)
            while len(self._kept) > FINISHED_ANSWERS:
                # The oldest; `find` moves what is used to the end.
                self._kept.popitem(last=False)


finished_answers = FinishedAnswers()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Choice:
    """How lessons are chosen where the request does not say: as the settings have it, or the release."""

    mode: str
    top_k: int
    lesson_tokens: int

    @classmethod
    def of(cls, question: Question, release: ReleaseSettings | None = None) -> "_Choice":
        usual_top_k = DEFAULT_TOP_K if release is None else release.top_k
        return cls(
            mode=question.mode or (get_default_mode() if release is None else release.mode),
            top_k=usual_top_k if question.top_k is None else question.top_k,
            lesson_tokens=DEFAULT_BUDGET_TOKENS if release is None else release.context_budget_tokens,
        )

    @property
    def is_nothing(self) -> bool:
        return self.mode == _Mode.NONE or self.top_k == 0


def _find_or_write(question: Question, choice: _Choice) -> tuple[_Written, Exposure]:
    """Choose lessons and write what the answer says, unless that is known for the present state of the project.

    What is deployed is read once, with the state: one release answers, however it changes meanwhile.
    """
    project_id, sizes, budget = question.project.pk, question.project.record_sizes, get_record_budget(question)
    columns, parameters = ask_record(question) if budget else ("", {})
    asked = (question.task, question.task_id, question.filters, question.seed, question.budget_tokens)
    # Whose tools count where the question does not say which.
    agent = question.agent if question.tools is None else ""
    key = (project_id, *asked, agent, question.tools, question.as_of, choice, budget, *sorted(sizes.items()))
    finished = finished_answers.find(key)
    if finished is not None:
        # Without the task: its words are needed only where there is something to search.
        with reading_as_of(question.as_of):
            state = read_state(project_id, columns=columns, parameters=parameters)
        exposure = expose(state.deployed, question)
        # In another state of the project the answer may hold what was withdrawn since.
        if finished[0] == _limit(state, exposure):
            return _give(finished[1], exposure), exposure
    with reading_as_of(question.as_of):
        state = read_state(project_id, task=question.task, columns=columns, parameters=parameters)
    exposure = expose(state.deployed, question)
    state, release_id = _limit(state, exposure), exposure.release_id
    if release_id is not None:
        choice = _Choice.of(question, read_release_settings(release_id))
    if choice.is_nothing:
        return _write(question, NO_SELECTION, NO_RECORD, choice), exposure
    material = read_material(state.record, release_id=release_id)
    record = build_record(material, budget_tokens=budget, sizes=sizes)
    selection = select_heuristics(question, state, mode=choice.mode, top_k=choice.top_k)
    if selection.asked_service and budget:  # what was read before may be withdrawn by now
        with reading_as_of(question.as_of):
            (row,) = read_prepared(f"SELECT {columns}", parameters)
        record = build_record(read_material(row, release_id=release_id), budget_tokens=budget, sizes=sizes)
    written = _write(question, selection, record, choice)
    # Runs are recorded without any change of state, and with them the lessons that are drawn from an agent's runs, and
    # the tools that the agent has.
    asked_runs = selection.asked_runs or bool(question.filters.agents)
    if not (selection.asked_service or selection.missing or asked_runs):
        finished_answers.keep(key, state, written)
    return _give(written, exposure), exposure


def _give(written: _Written, exposure: Exposure) -> _Written:
    """Return what a unit gets: in the hold-out nothing, with a note of the lessons that it would have got.

    Only so can a lesson be compared between units that chance alone told apart (`memory.effects.comparison`).
    """
    if exposure.arm != ServedArm.HOLDOUT:
        return written
    scores = {item["id"]: item["scores"].get("score", 0.0) for item in written.listed}
    # The block's ids are a set; in the record the best come first.
    withheld = sorted(written.context.ids, key=lambda id: -scores.get(id, 0.0))
    return replace(
        written,
        selection=NO_SELECTION,
        record=NO_RECORD,
        listed=[],
        items_json="[]",
        context=NO_RECORD,
        columns={
            "heuristic_ids": "{}",
            "injected_ids": "{}",
            "items": "[]",
            "considered_ids": _as_array(withheld),
            "considered_scores": _as_array(repr(scores.get(id, 0.0)) for id in withheld),
        },
    )


def _limit(state: ProjectState, exposure: Exposure) -> ProjectState:
    """Return the state with what the release that answers says in place of what the project says now."""
    if exposure.release_id is None:
        return state
    return replace(state, release_id=exposure.release_id, quotas=read_release_settings(exposure.release_id).quotas)


def _write(question: Question, selection: Selection, record: Context, choice: _Choice) -> _Written:
    """Write the lessons chosen, as items and as a block behind the record of earlier runs."""
    lesson_tokens = choice.lesson_tokens
    if question.budget_tokens is not None:
        lesson_tokens = question.budget_tokens - get_cost(record)
    items = [_describe(lesson) for lesson in selection.ranked]
    places = [*zip(items, selection.ranked, strict=True)]
    fitting = [item for item, lesson in places if not lesson.passed_over and item["id"] not in record.ids]
    values = {item["id"]: lesson.value for item, lesson in places}
    context = join_blocks(record, build_context(fitting, budget_tokens=lesson_tokens, values=values))
    subtasks = [clean_lines(part) for part in selection.subtasks]
    for item, lesson in places:
        item["injected"] = item["id"] in context.ids
        item["passed_over"] = "" if item["injected"] else lesson.passed_over or NO_ROOM
    injected = [item["id"] for item in items if item["injected"]]
    return _Written(
        selection=selection,
        record=record,
        listed=items,
        items_json=orjson.dumps([item for item in items if item["injected"]]).decode(),
        context=context,
        budget_tokens=lesson_tokens + get_cost(record),
        mode=choice.mode,
        top_k=choice.top_k,
        columns={
            "heuristic_ids": _as_array(item["id"] for item in items),
            "injected_ids": _as_array([*sorted(context.ids.difference(injected)), *injected]),  # rules first
            "items": orjson.dumps([_as_record(item, lesson, subtasks, record.ids) for item, lesson in places]).decode(),
            "considered_ids": _as_array(candidate.heuristic_id.hex for candidate in selection.considered),
            "considered_scores": _as_array(repr(round(candidate.score, 4)) for candidate in selection.considered),
        },
    )


def _describe(place: Ranked) -> dict[str, Any]:
    chosen = place.candidate
    return {
        "id": str(chosen.heuristic_id),
        "revision": chosen.number,
        "content_sha256": chosen.content_sha256,
        **{name: clean_lines(getattr(chosen, name)) for name in _WORDS},
        "polarity": chosen.polarity,
        "task_id": clean_lines(chosen.task_id),
        "tags": [clean_lines(tag) for tag in chosen.tags],
        "support": chosen.support,
        "scores": place.scores,
        "reason": clean_lines(place.reason),
        "subtask": clean_lines(place.subtask),
        "matched_task": clean_lines(chosen.matched_task),
    }


def _as_record(item: dict[str, Any], place: Ranked, subtasks: Sequence[str], in_record: Set[str]) -> dict[str, Any]:
    """Return what is kept of an item. The matched task is named by its run: a copy would outlive an erasure."""
    recorded = ("revision", "content_sha256", "scores", "reason", "injected")
    part = subtasks.index(item["subtask"]) + 1 if item["subtask"] in subtasks else 0
    return (
        {"heuristic": item["id"]}
        | {name: item[name] for name in recorded}
        | {"subtask": part, "matched_run": place.candidate.matched_run}
        | ({"in_record": True} if item["id"] in in_record else {})
        | ({"passed_over": item["passed_over"]} if item["passed_over"] else {})
    )


def _as_array(values: Iterable[str]) -> str:
    """Write ids or numbers as PostgreSQL reads an array: the driver takes four times as long for a list."""
    return "{" + ",".join(values) + "}"


def _write_options(question: Question) -> str:
    """Write down what else was asked, only what is not as usual, and without secrets, as the task is.

    By the names of the API, but for `polarities`: a command may name several.
    """
    filters, record, boundary = question.filters, question.record, question.random_boundary
    is_usual = filters == NO_FILTERS and question.seed is None and record and not boundary and not question.session
    if is_usual and question.tools is None and question.as_of is None:
        return "{}"
    asked = {
        "tags": filters.tags,
        "families": filters.task_ids,
        "source_agents": filters.agents,
        "polarities": filters.polarities,
        "seed": question.seed,
        "record": None if record else False,
        "boundary": "random" if boundary else None,
        "session": question.session or None,
        # An empty list is kept: it says that the agent has none.
        "as_of": question.as_of.isoformat() if question.as_of else None,
        "tools": None if question.tools is None else list(question.tools),
    }
    unusual = {name: value for name, value in asked.items() if value not in ((), None)}
    return orjson.dumps(redact(unusual).value).decode()
