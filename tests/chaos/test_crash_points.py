"""Everything that writes ends at each of its SQL statements and failpoints, and has happened wholly or not at all (F2).

Which operations there are is read from the OpenAPI document, so a new one is covered unasked.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone
from rest_framework.test import APIClient

from memory.api.models import IdempotencyRecord
from memory.embeddings.registry import forget_embedders
from memory.errors import AlreadyDecided
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.index.heuristic_vectors import find_heuristics_without_vectors
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project
from memory.review.models import Review
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from memory.trust.invariants import find_violations
from memory.trust.models import QuarantineOrder
from memory.trust.quarantine import quarantine_source
from reflection.jobs.execution import Outcome
from reflection.jobs.periodic import run_periodic_work
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.models import ModelCall
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.reflections import run_reflection
from reflection.reflectors.requests import enqueue_reflection
from tests.api.operations import OPERATIONS, Operation, fill_body, make_target
from tests.chaos.crash import Crash, Point, crash_at
from tests.chaos.profile import FULL, SOAK, make_random, report
from tests.factories import (
    approve_as_read,
    bearer,
    make_api_key,
    make_evidence,
    make_heuristic,
    make_project,
    make_trajectory,
)
from tests.lanes import nightly_unless
from tests.reflection.scripted import make_completion
from tests.scripted_answers import lesson
from tests.stack import PACKAGES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

QUICK_POINTS = 2  # of each piece of work; all of them in the full profile
EVERY_COMMIT = {  # what agents and reviewers do all day; the rest is tried at night
    *("recordTrajectory", "appendSteps", "finishTrajectory", "reportOutcome", "retrieveLessons", "rateHeuristic"),
    *("proposeHeuristic", "addEvidence", "approve", "approveHeuristic", "rejectHeuristic", "decideHeuristics"),
    *("mergeHeuristic", "retireHeuristic", "reviseHeuristic", "quarantine", "erase", "eraseTrajectory"),
    *("startRun", "decideEffect", "cutRelease", "promoteRelease", "rollBack", "promoteChange", "startExperiment"),
}
AT_ALL_POINTS = "recordTrajectory"  # in either profile: the request that every client sends, under its key
BY = Actor(label="user:ana")
# Made after the commit, and made by the process that tidies up where they are missing or stale
DERIVED = (
    "termcount",
    "termchange",
    "servedchange",
    "searchstatistics",
    "workerheartbeat",
    "heuristicembedding",
    "embeddingmodel",
)
State = dict[str, tuple[int, str]]


@dataclass(frozen=True, kw_only=True)
class Work:
    """Something that writes: how its rows are made, how it is done, and how one sees that it was."""

    name: str
    prepare: Callable[[Project], Any]
    do: Callable[[Any], None]
    is_done: Callable[[Any], bool]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request under a key to one operation."""

    operation: Operation
    project: Project
    token: str
    url: str
    body: Any

    def send(self) -> None:
        client = APIClient(raise_request_exception=False)
        headers = bearer(self.token) | {"Idempotency-Key": "once"}
        answer = self.operation.send_to(client, self.url, self.body, headers=headers)
        assert answer.status_code in self.operation.success, answer.content

    def is_recorded(self) -> bool:
        return IdempotencyRecord.objects.filter(project=self.project, key="once").exists()


def prepare_request(operation: Operation, project: Project) -> Request:
    url = operation.path.replace("{id}", str(make_target(operation, project))) if operation.has_id else operation.path
    body = fill_body(operation, project)
    return Request(operation=operation, project=project, token=make_api_key(project=project).token, url=url, body=body)


def approve(heuristic: Heuristic) -> None:
    try:
        approve_as_read(heuristic, by=BY)
    except AlreadyDecided:
        assert is_approved(heuristic)


def is_approved(heuristic: Heuristic) -> bool:
    return Review.objects.filter(heuristic=heuristic, decision=Review.Decision.APPROVE).exists()


def prepare_erasure(project: Project) -> UUID:
    """A run with a lesson of its own, one that it shares, and a stored answer about it."""
    run = make_trajectory(project=project)
    make_heuristic(trajectory=run)
    shared = make_heuristic(trajectory=run)
    make_evidence(heuristic=shared, trajectory=make_trajectory(project=project))
    enqueue_reflection(run, by=BY)
    return run.pk


def erase(id: UUID) -> None:
    for run in Trajectory.objects.filter(pk=id):
        erase_trajectory(run, by=BY)


def prepare_quarantine(project: Project) -> ApiKey:
    key = make_api_key(project=project, client="mallory").api_key
    run = make_trajectory(project=project, api_key=key, client="mallory")
    for _ in range(2):
        approve_as_read(make_heuristic(trajectory=run), by=BY)
    return key


def quarantine(key: ApiKey) -> None:
    if not is_quarantined(key):
        quarantine_source(key.project, api_key=key, since=timezone.now() - timedelta(hours=1), by=BY)


def is_quarantined(key: ApiKey) -> bool:
    return QuarantineOrder.objects.filter(project_id=key.project_id).exists()


WORKS = [
    *(
        Work(
            name=operation.id,
            prepare=partial(prepare_request, operation),
            do=Request.send,
            is_done=Request.is_recorded,
        )
        for operation in OPERATIONS
        if operation.method != "get"
    ),
    Work(name="approve", prepare=lambda project: make_heuristic(project=project), do=approve, is_done=is_approved),
    Work(
        name="erase",
        prepare=prepare_erasure,
        do=erase,
        is_done=lambda id: not Trajectory.objects.filter(pk=id).exists(),
    ),
    Work(name="quarantine", prepare=prepare_quarantine, do=quarantine, is_done=is_quarantined),
]


def state_of(project: Project) -> State:
    """Return count and hash of the project's rows in every table, apart from what is derived or notes a key's use."""
    tables = [
        (model._meta.db_table, any(field.column == "project_id" for field in model._meta.local_concrete_fields))
        for app in apps.get_app_configs()
        if app.name in PACKAGES
        for model in app.get_models()
        if model._meta.managed and not model._meta.proxy and not model._meta.db_table.endswith(DERIVED)
    ]
    statement = " UNION ALL ".join(
        f"SELECT '{table}', count(*), coalesce(sum(hashtextextended((to_jsonb(t) - 'last_used_at')::text, 0)), 0)::text"  # noqa: S608
        f" FROM {table} t {'WHERE project_id = %(project)s' if of_project else ''}"
        for table, of_project in tables
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, {"project": project.pk})
        return {table: (count, digest) for table, count, digest in cursor.fetchall()}


def grown(before: State, after: State) -> dict[str, int]:
    return {table: after[table][0] - before[table][0] for table in before if after[table][0] != before[table][0]}


def choose(points: list[Point], name: str) -> list[Point]:
    """Return the points in the order in which they are tried: in the quick profile only the first that are reached."""
    if FULL:
        return points
    return make_random(f"F2:{name}").sample(points, len(points))


def crash_everywhere(work: Work, *, at_all: bool = False) -> tuple[int, list[str]]:
    """Return at how many points the work ended and what was wrong after any."""
    work.do(work.prepare(make_project()))  # what is made once for all is there from here on
    project = make_project()
    subject = work.prepare(project)
    before = state_of(project)
    with crash_at(None) as trace:
        work.do(subject)
    whole = grown(before, state_of(project))
    # After a statement is before the next one: the soak tries both.
    each_statement = [point for point in trace.points() if point.before]
    every = FULL or at_all
    wrong, points = [], each_statement if every and not SOAK else choose(trace.points(), work.name)
    reached = 0
    for point in points:
        if reached == QUICK_POINTS and not every:
            break
        project = make_project()
        subject = work.prepare(project)
        before = state_of(project)
        with crash_at(point):
            try:
                work.do(subject)  # may do without a statement that was made before, as a cache allows
            except Crash:
                reached += 1
        connection.close()
        after = state_of(project)
        if work.is_done(subject):
            if grown(before, after) != whole:
                wrong.append(f"{point}: done by half, {grown(before, after)} instead of {whole}")
        elif after != before:
            wrong.append(f"{point}: not done, and yet {[table for table in before if before[table] != after[table]]}")
        work.do(subject)
        if (repeated := grown(before, state_of(project))) != whole:
            wrong.append(f"{point}: {repeated} after the repetition instead of {whole}")
    return reached, wrong


@pytest.fixture(autouse=True)
def _no_embedder(settings: Any) -> Iterator[None]:
    """Do without vectors, whatever embedder an earlier test has left loaded."""
    settings.ERL_EMBEDDER = "none"
    forget_embedders()
    yield
    forget_embedders()


@pytest.mark.parametrize(
    "work", nightly_unless(lambda work: work.name in EVERY_COMMIT, WORKS), ids=lambda work: work.name
)
def test_work_that_ends_at_any_point_was_done_wholly_or_not_at_all(work: Work, settings: Any) -> None:
    settings.ERL_RATE_LIMITS = []

    points, wrong = crash_everywhere(work, at_all=work.name == AT_ALL_POINTS)

    run_periodic_work()
    before, lacking = None, find_heuristics_without_vectors()
    while lacking and lacking != before:  # it sees to a hundred at a time
        run_periodic_work()
        before, lacking = lacking, find_heuristics_without_vectors()
    broken = [(each.invariant.name, each.rows) for each in find_violations() if "served" not in each.invariant.name]
    wrong += [f"without vectors after tidying up: {each}" for each in lacking]
    report("F2", work=work.name, points=points, violations=len(wrong) + len(broken))
    assert points >= QUICK_POINTS - 1
    assert wrong == []
    assert broken == []


def test_reflection_that_ends_at_any_point_is_done_once_in_the_end(settings: Any) -> None:
    settings.ERL_REFLECTOR, settings.ERL_LLM_PROVIDER, settings.ERL_LLM_MODEL = "llm", "openai", "m"
    settings.ERL_REFLECTION_MAX_ATTEMPTS = 10
    points, reached, wrong = 0, 0, []
    _reflect(_queue())  # what is made once for all is there from here on
    with crash_at(None) as trace:
        _reflect(_queue())
    for point in choose(trace.points(), "run_reflection"):
        if reached == QUICK_POINTS and not FULL:
            break
        points += 1
        reflection, calls = _queue(), _Calls()
        with crash_at(point):
            try:
                _reflect(reflection, calls)
            except Crash:
                reached += 1
        connection.close()
        reflection.refresh_from_db()
        if reflection.status != Reflection.Status.DONE and Proposal.objects.filter(reflection=reflection).exists():
            wrong.append(f"{point}: proposed and not done")
        outcomes = []
        while reflection.status in Reflection.LIVE:
            past = Now() - timedelta(seconds=1)
            Reflection.objects.filter(pk=reflection.pk, lease_until__isnull=False).update(lease_until=past)
            Reflection.objects.filter(pk=reflection.pk).update(available_at=past)
            outcomes.append(_reflect(reflection, calls))
            reflection.refresh_from_db()
        made = Proposal.objects.filter(reflection=reflection).count()
        kept = ModelCall.objects.filter(job=reflection).count()
        if (reflection.status, made, kept) != (Reflection.Status.DONE, 1, 1) or calls.count > 2:
            wrong.append(
                f"{point}: {reflection.status}, {made} proposals, {kept} kept of {calls.count} calls, {outcomes}"
            )

    broken = [(each.invariant.name, each.rows) for each in find_violations()]
    report("F2", work="run_reflection", points=reached, violations=len(wrong) + len(broken))
    assert points >= QUICK_POINTS
    assert wrong == []
    assert broken == []
    assert reached >= points / 2, "the statements of one reflection are not those of another"
    assert Heuristic.objects.count() == Reflection.objects.filter(status=Reflection.Status.DONE).count() == points + 2
    assert not HeuristicRevision.objects.served().exists()


class _Calls:
    """A model that counts what it is asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, step: str, request: ChatRequest) -> ChatAnswer:
        self.count += 1
        words = {"trigger": "When a case is cancelled", "action": "Look at the fare first.", "not_when": ""}
        return make_completion(text=json.dumps(lesson(**words, tools=[], evidence_steps=[1])))


def _queue() -> Reflection:
    return enqueue_reflection(make_trajectory(), by=BY)


def _reflect(reflection: Reflection, calls: _Calls | None = None) -> Outcome:
    return run_reflection(reflection.pk, owner="test/1", ask_model=calls or _Calls()).outcome


def test_work_in_two_transactions_is_noticed() -> None:
    """The negative control: an approval whose review is written in a second transaction."""

    def approve_in_two(heuristic: Heuristic) -> None:
        Heuristic.objects.filter(pk=heuristic.pk, status="proposed").update(status="quarantined")
        Project.objects.filter(pk=heuristic.project_id).update(name="two")

    broken = Work(
        name="two transactions",
        prepare=lambda project: make_heuristic(project=project),
        do=approve_in_two,
        is_done=lambda heuristic: Project.objects.filter(pk=heuristic.project_id, name="two").exists(),
    )

    assert crash_everywhere(broken, at_all=True)[1]
