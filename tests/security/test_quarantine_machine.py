"""An order, and everything that brings words back, in any sequence: nothing that it covers is given to an agent (F17).

Mallory's words carry a mark that every edit, copy and merge keeps, so the test knows them without asking how the
product does.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, seed
from hypothesis import settings as Budget
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from rest_framework.test import APIClient

from memory.api.authentication import verified_keys
from memory.curation.decisions import (
    edit_and_approve_heuristic,
    quarantine_heuristic,
    reject_heuristic,
    retire_heuristic,
)
from memory.curation.merge import merge_heuristics
from memory.curation.proposals import propose_heuristic, restore_revision, revise_heuristic
from memory.curation.undo import undo_review
from memory.episodes.export_file import export_memory
from memory.episodes.import_file import import_memory
from memory.errors import MemoryAppError
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import Authorship, HeuristicText
from memory.index.heuristic_vectors import embed_heuristics
from memory.mistakes.decisions import reopen_card
from memory.mistakes.merge import merge_cards, undo_merge
from memory.mistakes.models import MistakeCard
from memory.mistakes.policy import settle_cards
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from memory.trust.carried import find_carried
from memory.trust.models import QuarantineOrder
from memory.trust.quarantine import find_covered_by, lift_order, quarantine_source
from tests.chaos.profile import SEED, pick, report
from tests.factories import (
    approve_as_read,
    approve_card_as_read,
    bearer,
    make_api_key,
    make_project,
    make_trajectory,
    read,
)
from tests.memory.mistakes import record

pytestmark = [pytest.mark.nightly, pytest.mark.django_db]

ANA, OPERATOR, IMPORTER = Actor(label="user:ana"), Actor(label="user:ops"), Actor(label="command:import_memory")
MARK = "zyxmark"
SAID = ("Look at the fare first", "Ask for the number", "Name the fee")
WHO = st.sampled_from(["mallory", "mallory", "honest", "other"])
WHICH = st.integers(0, 7)
MOSTLY = st.sampled_from([True, True, True, False])
PREPARED = ("proposed", "served", "given", "merged away", "retired", "taken over", "card", "merged card")
AFTERWARDS = ("undo", "undo a merge", "every card", "ask again", "approve again", "import")
STEPS = 8


class KillSwitch(RuleBasedStateMachine):
    """A project with one client whose words are poison, of which every copy is known by its mark."""

    def __init__(self) -> None:
        super().__init__()
        self.block = transaction.atomic()
        self.block._from_testcase = True  # type: ignore[attr-defined]  # requests may open their durable transactions in it
        self.block.__enter__()
        self.project = make_project()
        self.client = APIClient(headers=bearer(make_api_key(project=self.project, client="asker").token))
        self.orders: list[QuarantineOrder] = []
        self.answers: dict[str, str] = {}  # by key, the block that was given
        self.given: dict[UUID, str] = {}  # by retrieval
        self.number = 0
        self.prepare()

    def prepare(self) -> None:
        """What a broken variant does first."""

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.block.__exit__(None, None, None)
        verified_keys.clear()

    @initialize(
        before=st.lists(st.sampled_from(PREPARED), min_size=1, max_size=3),
        ordered=MOSTLY,
        afterwards=st.lists(st.sampled_from(AFTERWARDS), max_size=3),
    )
    def begin(self, before: list[str], ordered: bool, afterwards: list[str]) -> None:
        """Begin on the way: with words of mallory's that were served, withdrawn, merged or given, and with an order."""
        self.propose(who="honest", said=SAID[0], new=True, rule_tag=False)
        self.approve(which=0)
        for what in before:
            self.propose(who="mallory", said=SAID[1], new=True, rule_tag=False)
            mine = self.pick(-1)
            assert mine is not None
            match what:
                case "served" | "given" | "merged away" | "retired":
                    approve_as_read(mine, by=ANA)
                case "taken over":
                    self.merge(which=-1, into=0, take_wording=True)
                case "card" | "merged card":
                    self.report(who="mallory", said=SAID[2], kind="fare")
                    self.report(who="honest", said=SAID[2], kind="seat")
            match what:
                case "given":
                    self.ask(key=0)
                case "merged away":
                    self.ask(key=1)
                    self.merge(which=-1, into=0, take_wording=False)
                case "retired":
                    retire_heuristic(mine, by=ANA)
                case "merged card":
                    for which in (0, 1):
                        self.decide_on_a_card(which=which, decide=approve_card_as_read)
                    self.merge_two_cards()
        if ordered:
            self.order()
        for what in afterwards:
            match what:
                case "undo" | "undo a merge":
                    self.take_back(which=-1, of_cards=what == "undo a merge")
                case "every card":
                    self.let_a_policy_decide("every-card")
                case "ask again":
                    self.ask(key=0)
                case "approve again":
                    self.restore(which=-1, number=0)
                    self.approve(which=-1)
                case "import":
                    self.import_what_was_exported(family="airline")
                    self.approve(which=-1)

    @property
    def is_ordered(self) -> bool:
        return bool(self.orders)

    @invariant()
    def nothing_marked_is_served(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        if not self.is_ordered:
            return
        served = HeuristicRevision.objects.served().filter(project=self.project)
        lessons = served.of_lessons().filter(guideline__contains=MARK)
        cards = served.of_mistakes().filter(rationale__contains=MARK)
        assert not lessons.exists(), "a lesson is served in the words that an order covers"
        assert not cards.exists(), "a mistake card is served in the words that an order covers"

    def attempt(self, act: Callable[[], Any]) -> Any:
        try:
            with transaction.atomic():
                return act()
        except MemoryAppError:
            return None

    # ── Those who say something ───────────────────────────────────────────────────────────────────────────────────
    def say(self, who: str, said: str, *, new: bool) -> str:
        self.number += new
        mark = f" {MARK}" if who == "mallory" else ""
        return f"{said}{f' and note {self.number}' if new else ''}{mark}."

    @rule(who=WHO, said=st.sampled_from(SAID), new=st.booleans(), rule_tag=st.booleans())
    def propose(self, who: str, said: str, new: bool, rule_tag: bool) -> None:
        tags = ("rule",) if rule_tag else ()
        text = HeuristicText(
            trigger="a reservation is cancelled", guideline=self.say(who, said, new=new), scope="project", tags=tags
        )
        self.attempt(
            partial(
                propose_heuristic, self.project, text=text, by=Actor(label=f"key:{who}"), origin=Authorship(client=who)
            )
        )

    @rule(who=WHO, said=st.sampled_from(SAID))
    def reflect(self, who: str, said: str) -> None:
        run = make_trajectory(project=self.project, client=who)
        text = HeuristicText(trigger="a reservation is changed", guideline=self.say(who, said, new=True))
        by = Actor(label="reflector:rules")
        propose_heuristic(self.project, text=text, by=by, origin=Authorship(client=who), runs=[run.pk])

    @rule(which=WHICH, who=WHO)
    def send_other_words(self, which: int, who: str) -> None:
        if heuristic := self.pick(which, "proposed", "approved"):
            kept = self.words(heuristic)
            text = HeuristicText(trigger="a seat is chosen", guideline=f"{kept} {self.say(who, SAID[0], new=True)}")
            self.attempt(partial(revise_heuristic, heuristic, text=text, by=Actor(label=f"key:{who}")))

    @rule(who=WHO, said=st.sampled_from(SAID), kind=st.sampled_from(["fare", "seat"]))
    def report(self, who: str, said: str, kind: str) -> None:
        words = self.say(who, said, new=False)
        card = {"mistake_type": kind, "correct_decision": words, "lesson": words, "task_id": "airline"}
        record(self.project, card, client=who)

    @rule(family=st.sampled_from(["", "airline"]))
    def import_what_was_exported(self, family: str) -> None:
        rules = [f"[WORKS] {words}" for words in sorted(self.all_words())]
        file = export_memory(self.project) | ({"task_rules": {family: rules}} if family else {"global_rules": rules})
        self.attempt(partial(import_memory, self.project, document=file, by=IMPORTER))

    # ── People and policies ───────────────────────────────────────────────────────────────────────────────────────
    @rule(which=WHICH)
    def approve(self, which: int) -> None:
        if heuristic := self.pick(which, "proposed"):
            self.attempt(partial(approve_as_read, heuristic, by=ANA))

    @rule(which=WHICH, decide=st.sampled_from([retire_heuristic, quarantine_heuristic, reject_heuristic]))
    def withdraw(self, which: int, decide: Callable[..., Heuristic]) -> None:
        if heuristic := self.pick(which, "approved", "proposed"):
            self.attempt(partial(decide, heuristic, by=ANA))

    @rule(which=WHICH, of_cards=st.booleans())
    def take_back(self, which: int, of_cards: bool) -> None:
        merged = MistakeCard.objects.filter(project=self.project, superseded_by__isnull=False).first()
        if of_cards and merged:
            self.attempt(partial(undo_merge, merged, by=ANA))
        elif (heuristic := self.pick(which)) and (review := Review.objects.filter(heuristic=heuristic).first()):
            self.attempt(partial(undo_review, review, by=Actor(label=review.reviewer)))

    @rule(which=WHICH)
    def edit(self, which: int) -> None:
        if heuristic := self.pick(which, "proposed"):
            self.number += 1
            text = HeuristicText(trigger="a fare is asked", guideline=f"{self.words(heuristic)} Also {self.number}.")
            self.attempt(
                partial(edit_and_approve_heuristic, heuristic, text=text, by=ANA, content_sha256=read(heuristic))
            )

    @rule(which=WHICH, number=st.integers(0, 2))
    def restore(self, which: int, number: int) -> None:
        if heuristic := self.pick(which, "retired", "quarantined", "superseded", "rejected"):
            revisions = list(heuristic.revisions.order_by("number"))
            revision = revisions[number % len(revisions)]
            self.attempt(partial(restore_revision, heuristic, revision=revision, by=ANA))

    @rule(which=WHICH, into=WHICH, take_wording=st.booleans(), of_cards=st.booleans())
    def merge(self, which: int, into: int, take_wording: bool, of_cards: bool = False) -> None:
        if of_cards:
            self.merge_two_cards()
            return
        heuristic, stays = self.pick(which, "proposed", "approved"), self.pick(into, "approved", "proposed")
        if heuristic and stays:
            self.attempt(partial(merge_heuristics, heuristic, into=stays, take_wording=take_wording, by=ANA))

    @rule(
        which=WHICH,
        decide=st.sampled_from(
            [approve_card_as_read, approve_card_as_read, reject_heuristic, retire_heuristic, reopen_card]
        ),
    )
    def decide_on_a_card(self, which: int, decide: Callable[..., MistakeCard]) -> None:
        if cards := list(MistakeCard.objects.filter(project=self.project).order_by("pk")):
            self.attempt(partial(decide, cards[which % len(cards)], by=ANA))

    def merge_two_cards(self) -> None:
        cards = list(MistakeCard.objects.unmerged().filter(project=self.project).order_by("pk"))
        if len(cards) > 1:
            self.attempt(partial(merge_cards, cards[0], into=cards[1], by=ANA))

    @rule(policy=st.sampled_from(["people", "corroborated", "every-card"]))
    def let_a_policy_decide(self, policy: str) -> None:
        Project.objects.filter(pk=self.project.pk).update(mistake_card_policy=policy)
        settle_cards(MistakeCard.objects.proposed().filter(project=self.project).values_list("pk", flat=True))

    # ── Agents and the operator ───────────────────────────────────────────────────────────────────────────────────
    @rule(key=st.integers(0, 5))
    def ask(self, key: int) -> None:
        embed_heuristics(HeuristicRevision.objects.filter(project=self.project).values_list("heuristic", flat=True))
        body = {"task": f"Cancel a reservation {SAID[0]} zyxmark", "task_id": "airline"}
        answer = self.client.post("/api/v1/retrieve", body, format="json", headers={"Idempotency-Key": f"key-{key}"})
        said = answer.content.decode()
        assert answer.status_code == 200, said
        if self.is_ordered:
            assert MARK not in said, "an agent is given the words that an order covers"
        block, id = answer.json()["context"], answer.json()["retrieval_id"]
        if "Idempotent-Replayed" not in answer:
            self.given[UUID(id)] = block
        shown = self.client.get(f"/api/v1/retrievals/{id}").json()
        assert not self.is_ordered or MARK not in shown["context"], "a stored answer shows the words"

    @rule()
    def order(self) -> None:
        since = timezone.now() - timedelta(hours=1)
        done = quarantine_source(self.project, client="mallory", since=since, by=OPERATOR)
        self.orders.append(done.order)
        self.compare_lists({each.retrieval_id for each in done.carried})
        self.compare_lists({each.retrieval_id for each in find_carried(self.project, find_covered_by(done.order))})

    def compare_lists(self, listed: set[UUID]) -> None:
        gave = {id for id, block in self.given.items() if MARK in block}
        assert gave <= listed, "an answer that carried the words is missing in the list"

    @rule(chance=st.integers(0, 5))
    def lift(self, chance: int) -> None:
        if not chance:
            for order in self.orders:
                lift_order(order, by=OPERATOR)
            self.orders.clear()

    # ── What there is ─────────────────────────────────────────────────────────────────────────────────────────────
    def pick(self, which: int, *statuses: str) -> Heuristic | None:
        rows = Heuristic.objects.filter(project=self.project).select_related("current_revision").order_by("pk")
        fitting = [row for row in rows if not statuses or row.status in statuses]
        return fitting[which % len(fitting)] if fitting else None

    def words(self, heuristic: Heuristic) -> str:
        assert heuristic.current_revision is not None
        return heuristic.current_revision.guideline

    def all_words(self) -> set[str]:
        return set(HeuristicRevision.objects.filter(project=self.project).values_list("guideline", flat=True))


@pytest.fixture(autouse=True)
def _without_model(settings: Any) -> None:
    settings.ERL_EMBEDDER, settings.ERL_PENDING_PROPOSALS_PER_CLIENT = "none", 0


def budget(runs: int, **rest: Any) -> Budget:
    phases = rest.pop("phases", [Phase.generate, Phase.shrink])
    return Budget(
        max_examples=runs,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=phases,
        database=None,
        **rest,
    )


def test_no_sequence_serves_what_an_order_covers() -> None:
    runs = pick(20, 2_000)

    run_state_machine_as_test(seed(SEED)(KillSwitch), settings=budget(runs, print_blob=True))

    report("F17", runs=runs, steps_each=STEPS, violations=0)


# ── Fixes taken back ──────────────────────────────────────────────────────────────────────────────────────────────────
class WithoutTheDatabase(KillSwitch):
    """Only the services look at orders."""

    def prepare(self) -> None:
        with connection.cursor() as cursor:
            for when in ("", "_later"):
                cursor.execute(f"DROP TRIGGER memory_revision_refuse_covered{when} ON memory_heuristicrevision")


class WithoutLineage(KillSwitch):
    """Every wording descends from itself alone."""

    def prepare(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE OR REPLACE FUNCTION memory_wording_lineage() RETURNS trigger LANGUAGE plpgsql AS $$"
                "BEGIN NEW.lineage := ARRAY[NEW.id]; RETURN NEW; END $$"
            )


def no_origins(revision: Any, sources: Any) -> None:
    """Do not write down who said the words of a card."""


def serve_again_unasked(revision: Any) -> None:
    type(revision)._default_manager.filter(pk=revision.pk).update(served=True)


def carried_by_the_rows(project: Project, wording_ids: Any) -> Any:
    live = set(Heuristic.objects.filter(project=project, status="quarantined").values_list("pk", flat=True))
    return tuple(each for each in find_carried(project, wording_ids) if live.intersection(each.heuristic_ids))


def take_the_rows_alone(project: Project, wording_ids: Any) -> Any:
    return frozenset(wording_ids)


@pytest.mark.parametrize(
    ("broken", "place", "instead", "says"),
    [
        (WithoutTheDatabase, "memory.curation.undo.serve_again", serve_again_unasked, "a lesson is served"),
        (WithoutTheDatabase, "memory.mistakes.merge.serve_again", serve_again_unasked, "a mistake card is served"),
        (WithoutLineage, "", None, "is served in the words"),
        (
            KillSwitch,
            "memory.mistakes.decisions.record_origins",
            no_origins,
            "a mistake card is served",
        ),
        (KillSwitch, "memory.trust.quarantine._find_descendants", take_the_rows_alone, "is served in the words"),
        (KillSwitch, "memory.retrieval.views.RetrieveView.replay", lambda view, stored: stored, "an agent is given"),
        (
            KillSwitch,
            "memory.retrieval.views.find_order_over",
            lambda retrieval: None,
            "an agent is given|a stored answer shows",
        ),
        (KillSwitch, "memory.trust.quarantine.find_carried", carried_by_the_rows, "is missing in the list"),
    ],
    ids=[
        "undone-retirement",
        "undone-merge",
        "copies-and-edits",
        "words-of-cards",
        "taken-over-words",
        "repeated-request",
        "stored-answer",
        "list-of-answers",
    ],
)
def test_machine_finds_each_old_defect(
    broken: type[KillSwitch], place: str, instead: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place:
        monkeypatch.setattr(place, instead)

    with pytest.raises(AssertionError, match=says):
        run_state_machine_as_test(
            seed(7)(broken), settings=budget(80, phases=[Phase.generate], report_multiple_bugs=False)
        )
