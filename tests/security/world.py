"""Everybody who works on a project, taking turns as Hypothesis says: the rules of the stateful test (F23).

A turn that needs a run or a lesson where there is none records one, or lets it be learnt, first.
"""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db import connection
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from rest_framework.test import APIClient

from memory.after_commit import DeferredCall
from memory.api.models import IdempotencyRecord
from memory.curation.decisions import quarantine_heuristic, reject_heuristic, retire_heuristic
from memory.curation.merge import merge_heuristics
from memory.curation.proposals import revise_heuristic
from memory.curation.undo import undo_review
from memory.effects.feedback import Feedback, record_feedback
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import count_terms, embed_heuristics
from memory.intake.recording import report_outcome
from memory.projects.actors import Actor
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from memory.review.models import Review
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from memory.trust.quarantine import quarantine_source
from reflection.jobs.execution import Outcome
from reflection.jobs.periodic import run_periodic_work
from reflection.jobs.queue import claim, release_claims
from reflection.llm.base import ProviderError
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.models import ProviderState
from reflection.reflectors.models import KIND, Reflection
from reflection.reflectors.reflections import run_reflection
from reflection.reflectors.requests import requeue_reflection
from tests.factories import approve_as_read, bearer
from tests.reflection.scripted import make_completion
from tests.scripted_answers import lesson
from tests.security.watched import Watched, choose, has

AGENT, REVIEWER, OPERATOR = Actor(label="key:agent"), Actor(label="user:ana"), Actor(label="user:ops")
STEPS = [{"thought": "look", "action": {"name": "cancel", "arguments": {}}, "observation": "refused", "error": "no"}]
WHICH = st.integers(0, 7)
RIGHTLY = st.sampled_from([True, True, True, False])  # mostly what the services allow, and sometimes what they refuse
PROPOSED, APPROVED = ("proposed",), ("approved",)
IN_USE = PROPOSED + APPROVED
AFTER_COMMIT = (embed_heuristics, count_terms)  # at the latest before somebody asks; workers come as they are drawn


class World(Watched):
    """Agents, workers, time, the sweeper, reviewers, the operator and the eraser."""

    def __init__(self) -> None:
        super().__init__()
        self.client = APIClient(headers=bearer(self.key.token))
        self.acknowledged: dict[str, str] = {}
        self.decided: set[UUID] = set()  # by the reviewer, and not undone
        self.number = 0
        self._decisions: dict[str, Callable[[Heuristic], Heuristic]] = {
            "approve": self.approve,
            "reject": partial(reject_heuristic, by=REVIEWER),
            "retire": partial(retire_heuristic, by=REVIEWER),
            "quarantine": partial(quarantine_heuristic, by=REVIEWER),
        }

    @initialize(runs=st.integers(0, 2), approved=st.integers(0, 2))
    def begin(self, runs: int, approved: int) -> None:
        """Begin somewhere on the way: with runs that taught something, of which a part was approved."""
        for _ in range(runs):
            self._teach()
        for _ in range(min(approved, runs)):
            self.decide(which=0, decision="approve", rightly=True)
            self.rules_hold()

    # ── An agent ──────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(key=st.integers(0, 9), family=st.sampled_from(["", "airline.cancel"]))
    def record(self, key: int, family: str) -> None:
        self._record(f"key-{key}", family)

    def _record(self, name: str, family: str) -> None:
        body = {"task": f"Cancel reservation {name}", "task_id": family, "outcome": "failure", "steps": STEPS}
        answer = self.client.post("/api/v1/trajectories", body, format="json", headers={"Idempotency-Key": name})
        is_new = False
        if answer.status_code == 201:
            id = answer.json()["id"]
            is_new = name not in self.acknowledged
            assert self.acknowledged.setdefault(name, id) == id, "one key made two runs"
            self.runs.add(id)
        else:
            assert answer.status_code in (409, 410), answer.content
            assert name in self.acknowledged, "a key that stands for nothing is refused"
        self.count("record", is_new)

    @rule(which=WHICH, outcome=st.sampled_from(["success", "failure"]))
    def report(self, which: int, outcome: str) -> None:
        run = self._pick_run(which)
        before = run.outcome
        report_outcome(run, outcome=outcome, outcome_source="environment", by=AGENT)
        self.count("report", before != outcome)

    @rule(task=st.sampled_from(["Cancel a reservation", "Change a flight", "case"]))
    def ask(self, task: str) -> None:
        hooks, connection.run_on_commit = connection.run_on_commit, []
        for _, hook, *_ in hooks:
            if isinstance(hook, DeferredCall) and hook.function in AFTER_COMMIT:
                hook()
        answer = retrieve(Question(project=self.project, task=task, by=AGENT))
        assert {item["content_sha256"] for item in answer.items} <= self.approved
        self.count("ask", bool(answer.items))

    @rule(which=WHICH, about=WHICH, verdict=st.sampled_from(["followed", "contradicted", "not_applicable"]))
    def tell(self, which: int, about: int, verdict: str) -> None:
        heuristic, run = self._pick_lesson(which), self._pick_run(about)
        record_feedback(heuristic, Feedback(verdict=verdict), client="agent", trajectory=run)
        self.count("tell", True)

    # ── A worker ──────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(fate=st.sampled_from(["lesson", "lesson", "lesson", "lesson", "garbage", "down", "dies", "hangs", "erased"]))
    def work(self, fate: str) -> None:
        Reflection.objects.filter(status__in=Reflection.WAITING).update(available_at=timezone.now())
        if not has(self.jobs, *Reflection.LIVE):
            self._record_another()
        if fate == "dies":
            self.count("reflect", claim(KIND, owner="dead/1") is not None)
            return
        asked: list[str] = []
        attempt = run_reflection(owner="alive/1", ask_model=partial(self._answer, fate, asked))
        assert attempt.outcome == Outcome.LOST or not {"hangs", "erased"}.intersection(asked), "it was fenced out"
        self.count("reflect", attempt.outcome != Outcome.NOTHING)

    def _answer(self, fate: str, asked: list[str], step: str, request: ChatRequest) -> ChatAnswer:
        """Answer as the fate says, which may be that of the worker that asks."""
        asked.append(fate)
        self.number += 1
        mine = Reflection.objects.select_related("trajectory").filter(lease_owner="alive/1", status="running")
        match fate:
            case "down":
                raise ProviderError("no answer", transient=True, code="timeout")
            case "garbage":
                return make_completion(text='{"learn": true, "trigger": 5}')
            case "hangs":
                reflection = mine.get()
                mine.update(lease_until=timezone.now() - timedelta(seconds=1))
                run_reflection(reflection.pk, owner="alive/2", ask_model=partial(self._answer, "lesson", []))
            case "erased":
                self._erase(mine.get().trajectory)
        words = {"trigger": f"When case {self.number} is cancelled", "action": "Look at the fare first."}
        return make_completion(text=json.dumps(lesson(**words, not_when="", tools=[], evidence_steps=[1])))

    # ── Time and the sweeper ──────────────────────────────────────────────────────────────────────────────────────
    @rule()
    def let_leases_end(self) -> None:
        if not has(self.jobs, "running"):
            self.work("dies")
        past = timezone.now() - timedelta(seconds=1)
        ended = Reflection.objects.filter(status=Reflection.Status.RUNNING).update(lease_until=past)
        ended += ProviderState.objects.filter(opened_until__gt=past).update(opened_until=past)
        self.count("let_leases_end", ended > 0)

    @rule()
    def let_keys_expire(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        expired = IdempotencyRecord.objects.update(expires_at=past)
        self.acknowledged.clear()
        self.count("let_keys_expire", expired > 0)

    @rule(is_gone=st.booleans())
    def sweep(self, is_gone: bool) -> None:
        released = len(release_claims(["dead/1"])) if is_gone else 0
        expired = IdempotencyRecord.objects.filter(expires_at__lt=timezone.now())
        found = expired.count()
        self.keep_house()
        assert not expired.exists()
        self.count("sweep", released + found > 0)

    # ── People ────────────────────────────────────────────────────────────────────────────────────────────────────
    @rule(which=WHICH, decision=st.sampled_from(["approve"] * 3 + ["reject", "retire", "quarantine"]), rightly=RIGHTLY)
    def decide(self, which: int, decision: str, rightly: bool) -> None:
        fit = {"approve": PROPOSED, "reject": PROPOSED, "retire": APPROVED, "quarantine": IN_USE}[decision]
        heuristic = self._pick_lesson(which, fit if rightly else ())
        decided = self.attempt(decision, partial(self._decisions[decision], heuristic))
        if decided:
            self.decided.add(heuristic.pk)
        if decided and decision == "approve":
            self._note_approval(decided)

    @rule(which=WHICH, word=st.sampled_from(["first", "twice", "never"]))
    def reword(self, which: int, word: str) -> None:
        heuristic = self._pick_lesson(which, IN_USE)
        text = HeuristicText(trigger="A reservation", guideline=f"Look {word}.")
        if heuristic.status in IN_USE:
            self.attempt("reword", partial(revise_heuristic, heuristic, text=text, by=REVIEWER))

    @rule(which=WHICH, into=WHICH, take_wording=st.booleans())
    def merge(self, which: int, into: int, take_wording: bool) -> None:
        heuristic = self._pick_lesson(which, IN_USE)
        others = [(status, id) for status, id in self.lessons if id != heuristic.pk]
        if not others:
            return
        stays = Heuristic.objects.get(pk=choose(others, into, IN_USE))
        act = partial(merge_heuristics, heuristic, into=stays, take_wording=take_wording, by=REVIEWER)
        merged = self.attempt("merge", act)
        if merged and take_wording and merged.status == Heuristic.Status.APPROVED:
            self._note_approval(merged)

    @rule(which=WHICH)
    def take_back(self, which: int) -> None:
        if not self.decided:
            self.decide(which=which, decision="approve", rightly=True)
        if not self.decided:
            return
        id = choose([("", id) for id in sorted(self.decided)], which)
        self.decided.discard(id)
        if review := Review.objects.filter(heuristic=id).first():
            self.attempt("take_back", partial(undo_review, review, by=REVIEWER))

    @rule(which=WHICH, rightly=RIGHTLY)
    def reflect_again(self, which: int, rightly: bool) -> None:
        if not has(self.jobs, "done", "dead"):
            self._teach()
        job = choose(self.jobs, which, ("done", "dead") if rightly else ())
        reflection = Reflection.objects.get(pk=job)
        self.attempt("reflect_again", partial(requeue_reflection, reflection, by=REVIEWER))

    @rule(which=WHICH)
    def erase(self, which: int) -> None:
        self._erase(self._pick_run(which))
        self.count("erase", True)

    @rule(minutes=st.sampled_from([1, 1, 1, 0]))
    def pull_the_brake(self, minutes: int) -> None:
        if not has(self.lessons, *IN_USE):
            self.count("pull_the_brake", False)
            return
        since = timezone.now() - timedelta(minutes=minutes)
        done = quarantine_source(self.project, api_key=self.key.api_key, since=since, by=OPERATOR)
        self.withdrawn.update(done.heuristic_ids)
        self.count("pull_the_brake", bool(done.heuristic_ids))

    # ── Helpers ───────────────────────────────────────────────────────────────────────────────────────────────────
    def _record_another(self) -> None:
        """Record a run that no key stands for yet; its reflection is due."""
        self.number += 1
        self._record(f"another-{self.number}", "airline.cancel")
        self.rules_hold()

    def _teach(self) -> None:
        """Let a run teach a lesson, for a turn that needs one."""
        self._record_another()
        self.work("lesson")
        self.rules_hold()

    def _pick_lesson(self, which: int, fit: tuple[str, ...] = ()) -> Heuristic:
        if not self.lessons:
            self._teach()
        return Heuristic.objects.select_related("current_revision").get(pk=choose(self.lessons, which, fit))

    def _pick_run(self, which: int) -> Trajectory:
        if not self.runs:
            self._record_another()
        return Trajectory.objects.get(pk=sorted(self.runs)[which % len(self.runs)])

    def _note_approval(self, heuristic: Heuristic) -> None:
        assert heuristic.current_revision is not None
        self.approved.add(heuristic.current_revision.content_sha256)
        self.withdrawn.discard(heuristic.pk)

    def _erase(self, run: Trajectory) -> None:
        self.runs.discard(str(run.pk))
        self.erase_run(run)

    # ── What a broken variant does otherwise ──────────────────────────────────────────────────────────────────────
    def approve(self, heuristic: Heuristic) -> Heuristic:
        return approve_as_read(heuristic, by=REVIEWER)

    def erase_run(self, run: Trajectory) -> None:
        erase_trajectory(run, by=OPERATOR)

    def keep_house(self) -> None:
        run_periodic_work()
