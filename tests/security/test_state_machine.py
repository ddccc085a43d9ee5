"""Client, worker, sweeper, reviewer, operator and eraser in any order: no rule about the rows ever breaks (F23)."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, seed
from hypothesis import settings as Budget
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from rest_framework.test import APIClient

from memory.api.authentication import verified_keys
from memory.errors import LessonMemoryError
from memory.invariants import find_violations
from memory.models import Heuristic, HeuristicRevision, Project, Trajectory
from memory.services.erase_trajectory import erase_trajectory
from memory.services.propose_heuristic import revise_heuristic
from memory.services.quarantine_source import quarantine_source
from memory.services.retrieve import retrieve
from memory.services.review_heuristic import (
    approve_heuristic,
    quarantine_heuristic,
    reject_heuristic,
    retire_heuristic,
)
from memory.services.verify_audit import verify_audit
from memory.values import Actor, LessonText
from reflection.models import Reflection
from reflection.providers.base import Completion, CompletionRequest, ProviderError
from reflection.queue import claim
from reflection.services import run_reflection
from tests.chaos.profile import SEED, pick, report
from tests.factories import bearer, make_api_key, make_project
from tests.reflection.scripted import make_completion
from tests.scripted_answers import lesson

pytestmark = pytest.mark.django_db

RUNS, STEPS = pick(8, 200), pick(25, 50)
REVIEWER, OPERATOR = Actor(label="user:ana"), Actor(label="user:ops")
_DECISIONS = {
    "approve": approve_heuristic,
    "reject": reject_heuristic,
    "retire": retire_heuristic,
    "quarantine": quarantine_heuristic,
}
steps_made = 0


class World(RuleBasedStateMachine):
    """One project and everybody who works on it. What was approved and acknowledged is remembered beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.block = transaction.atomic()
        self.block._from_testcase = True  # requests may open their durable transactions in it
        self.block.__enter__()
        self.project: Project = make_project()
        self.key = make_api_key(project=self.project)
        self.client = APIClient(headers=bearer(self.key.token))
        self.acknowledged: dict[str, str] = {}
        self.approved: set[str] = set()
        self.number = 0

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.block.__exit__(None, None, None)
        verified_keys.clear()

    # ── An agent ──────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(key=st.integers(0, 5), family=st.sampled_from(["", "airline.cancel"]))
    def record(self, key: int, family: str) -> None:
        name = f"key-{key}"
        body = {"task": f"Cancel reservation {name}", "task_id": family, "outcome": "failure", "steps": _STEPS}
        answer = self.client.post("/api/v1/trajectories", body, format="json", headers={"Idempotency-Key": name})
        if answer.status_code == 201:
            id = answer.json()["id"]
            assert self.acknowledged.setdefault(name, id) == id, "one key made two runs"
        else:
            assert answer.status_code in (409, 410), answer.content

    @rule(task=st.sampled_from(["Cancel a reservation", "Change a flight", "case"]))
    def ask(self, task: str) -> None:
        answer = retrieve(self.project, task=task, by=Actor(label="key:agent"))
        assert {item["content_sha256"] for item in answer.items} <= self.approved

    # ── A worker ──────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(fate=st.sampled_from(["lesson", "lesson", "lesson", "garbage", "down", "dies"]))
    def work(self, fate: str) -> None:
        Reflection.objects.filter(status__in=Reflection.WAITING).update(available_at=timezone.now())
        if fate == "dies":
            claim(owner="dead/1")
            return
        self.number += 1
        run_reflection(owner="alive/1", ask_model=_Model(fate=fate, number=self.number))

    @rule()
    def let_leases_end(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        Reflection.objects.filter(status=Reflection.Status.RUNNING).update(lease_until=past)

    # ── People ────────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(which=st.integers(0, 7), decision=st.sampled_from([*_DECISIONS, "approve", "approve"]))
    def decide(self, which: int, decision: str) -> None:
        heuristic = self._pick(Heuristic, which)
        if heuristic is None:
            return
        try:
            with transaction.atomic():
                decided = _DECISIONS[decision](heuristic, by=REVIEWER)
        except LessonMemoryError:
            return
        if decision == "approve":
            assert decided.current_revision is not None
            self.approved.add(decided.current_revision.content_sha256)

    @rule(which=st.integers(0, 7), word=st.sampled_from(["first", "twice", "never"]))
    def reword(self, which: int, word: str) -> None:
        heuristic = self._pick(Heuristic, which)
        if heuristic is None or heuristic.status not in ("proposed", "approved"):
            return
        try:
            with transaction.atomic():
                revise_heuristic(
                    heuristic, text=LessonText(trigger="A reservation", guideline=f"Look {word}."), by=REVIEWER
                )
        except LessonMemoryError:
            return

    @rule(which=st.integers(0, 7))
    def erase(self, which: int) -> None:
        run = self._pick(Trajectory, which)
        if run is not None:
            erase_trajectory(run, by=OPERATOR)

    @precondition(lambda self: self.approved)
    @rule(minutes=st.integers(0, 2))
    def pull_the_brake(self, minutes: int) -> None:
        since = timezone.now() - timedelta(minutes=minutes)
        done = quarantine_source(self.project, api_key=self.key.api_key, since=since, by=OPERATOR)
        assert not HeuristicRevision.objects.served().filter(heuristic__in=done.heuristic_ids).exists()

    # ── What must hold at any time ────────────────────────────────────────────────────────────────────────────────
    @invariant()
    def rules_hold(self) -> None:
        global steps_made
        steps_made += 1
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        assert [(each.invariant.name, each.rows) for each in find_violations()] == []

    @invariant()
    def served_was_approved(self) -> None:
        served = set(HeuristicRevision.objects.served().values_list("content_sha256", flat=True))
        assert served <= self.approved

    def _pick(self, model: Any, which: int) -> Any:
        rows = list(model.objects.filter(project=self.project).order_by("pk")[:8])
        return rows[which % len(rows)] if rows else None


_STEPS = [{"thought": "look", "action": {"name": "cancel", "arguments": {}}, "observation": "refused", "error": "no"}]


class _Model:
    """Answers as its fate says."""

    def __init__(self, *, fate: str, number: int) -> None:
        self.fate, self.number = fate, number

    def __call__(self, step: str, request: CompletionRequest) -> Completion:
        if self.fate == "down":
            raise ProviderError("no answer", transient=True, code="timeout")
        if self.fate == "garbage":
            return make_completion(text='{"learn": true, "trigger": 5}')
        words = {"trigger": f"When case {self.number} is cancelled", "action": "Look at the fare first."}
        return make_completion(text=json.dumps(lesson(**words, not_when="", tools=[], evidence_steps=[1])))


def test_no_order_of_steps_breaks_a_rule(settings: Any) -> None:
    settings.ERL_REFLECTOR, settings.ERL_LLM_PROVIDER, settings.ERL_LLM_MODEL = "llm", "openai", "m"
    settings.ERL_EMBEDDER, settings.ERL_PENDING_PROPOSALS_PER_CLIENT = "none", 0

    run_state_machine_as_test(seed(SEED)(World), settings=_budget())

    report("F23", runs=RUNS, steps_each=STEPS, steps=steps_made, violations=0)
    assert verify_audit().faults == []


def _budget() -> Budget:
    return Budget(
        max_examples=RUNS,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        database=None,
    )
