"""What agents say again: lessons they were given, the same fact in many words, and the opposite of what is known."""

import csv
import random
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from memory.curation.proposal_groups import find_group_evidence
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics, get_active_model
from memory.mistakes.models import MistakeCard
from memory.mistakes.policy import settle_cards
from memory.projects.actors import Actor
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from reflection.consolidation.execution import run_consolidation
from reflection.consolidation.models import ConsolidationRun
from reflection.consolidation.requests import request_consolidation
from reflection.jobs.execution import Outcome
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.reflections import run_reflection
from reflection.reflectors.repetition import ALREADY_SERVED
from tests.factories import approve_as_read, make_heuristic
from tests.lanes import nightly_unless

pytestmark = pytest.mark.django_db
BY = Actor(label="user:ana")
GUIDELINE = "Check the time of booking before calling cancel_reservation."
OTHER_WORDING = "If a reservation should be cancelled, first verify the booking time, then call cancel_reservation."
WORDINGS = Path(settings.BASE_DIR) / "tests" / "data" / "same_meaning" / "wordings.tsv"


@pytest.fixture(autouse=True)
def _rules(db: None, settings: Any) -> None:
    settings.ERL_REFLECTOR = "rules"
    settings.ERL_PENDING_PROPOSALS_PER_CLIENT = 0
    get_active_model()


def serve(project: Any, **words: str) -> Heuristic:
    """Return an approved lesson that every task of the family is given."""
    said: Any = {
        "trigger": "When a reservation is to be cancelled",
        "guideline": GUIDELINE,
        "polarity": "works",
    } | words
    lesson = make_heuristic(project=project, status="approved", task_id="airline", tags=["rule"], **said)
    embed_heuristics([lesson.pk])
    return lesson


def record(client: Any, **run: Any) -> Trajectory:
    body = {"task_id": "airline", "reflect": True} | ({} if "messages" in run else {"task": "Cancel EHGLP3"}) | run
    answer = client.post("/api/v1/trajectories", body)
    assert answer.status_code == 201, answer.content
    return Trajectory.objects.get(pk=answer.json()["id"])


def retrieve(client: Any, task: str = "Cancel EHGLP3") -> dict[str, Any]:
    answer = client.post("/api/v1/retrieve", {"task": task, "task_id": "airline"})
    body: dict[str, Any] = answer.json()
    return body


def reflect_on_all() -> None:
    while run_reflection(owner="test").outcome != Outcome.NOTHING:
        pass


# ── The lessons of a run in its own words ─────────────────────────────────────────────────────────────────────────
def test_block_in_a_message_is_no_part_of_the_task(api_client: Any, project: Any) -> None:
    serve(project)
    context = retrieve(api_client)["context"]
    assert "<lessons>" in context or "<record>" in context
    messages = [
        {"role": "user", "content": f"{context}\n\nCancel my flight to Rome."},
        {"role": "assistant", "content": "Done."},
    ]

    run = record(api_client, messages=messages)

    assert run.task == "Cancel my flight to Rome."
    assert GUIDELINE not in str(run.steps)


def test_message_of_lessons_alone_is_not_the_task(api_client: Any, project: Any) -> None:
    serve(project)
    messages = [
        {"role": "user", "content": retrieve(api_client)["context"]},
        {"role": "user", "content": "Cancel my flight to Rome."},
        {"role": "assistant", "content": "Done."},
    ]

    assert record(api_client, messages=messages).task == "Cancel my flight to Rome."


def test_block_in_a_task_is_neither_stored_nor_searched_for(api_client: Any, project: Any) -> None:
    serve(project)
    task = f"{retrieve(api_client)['context']}\nCancel my flight to Rome."

    run = record(api_client, task=task)
    answer = api_client.post("/api/v1/retrieve", {"task": task})

    assert run.task == "Cancel my flight to Rome."
    assert Retrieval.objects.get(pk=answer.json()["retrieval_id"]).task == "Cancel my flight to Rome."


@pytest.mark.parametrize(
    "note",
    nightly_unless(
        lambda note: note == OTHER_WORDING,
        [
            GUIDELINE,
            "Always check the time of booking before you call cancel_reservation.",
            "When a reservation is to be cancelled, check the time of booking before calling cancel_reservation.",
            "Never call cancel_reservation without checking the time of booking.",
            OTHER_WORDING,
        ],
    ),
)
def test_twenty_repetitions_of_a_served_lesson_are_one_line(api_client: Any, project: Any, note: str) -> None:
    lesson = serve(project)
    answers = [retrieve(api_client)["retrieval_id"] for _ in range(20)]
    [record(api_client, retrieval_id=answer, score=1, successes=[note]) for answer in answers]

    reflect_on_all()
    consolidate(project)

    lesson.refresh_from_db()
    assert (Heuristic.objects.count(), lesson.support) == (1, 0)
    assert {reflection.skip_reason for reflection in Reflection.objects.all()} == {ALREADY_SERVED}


def correct_itself(client: Any, tool: str, thing: str, **run: Any) -> None:
    """Record a run that gave an id without its sign first, and reflect on it."""
    steps = [
        {
            "action": {"name": tool, "arguments": {"id": "7"}},
            "error": f"Error: {thing} not found. Its id starts with '#', for example '#4711'.",
        },
        {"action": {"name": tool, "arguments": {"id": "#7"}}, "observation": "{'status': 'open'}"},
    ]
    record(client, score=1, task=f"What is the status of {thing} 7?", steps=steps, **run)
    reflect_on_all()


def test_valid_lesson_about_another_tool_is_proposed(api_client: Any, project: Any) -> None:
    correct_itself(api_client, "get_order", "order")
    first = Heuristic.objects.get()
    approve_as_read(first, by=BY)

    answer = retrieve(api_client, "What is the status of order 9? Call get_order.")
    correct_itself(api_client, "find_ticket", "ticket", retrieval_id=answer["retrieval_id"])

    assert Retrieval.objects.get().injected_ids == [first.pk]
    second = Heuristic.objects.exclude(pk=first.pk).select_related("current_revision").get()
    assert "find_ticket" in second.current_revision.trigger  # type: ignore[union-attr]


# ── What supports a lesson ────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("advice", "note"),
    [
        ("Retry the payment call.", "Next time, I will not retry the payment call."),
        ("Retry the payment call.", "Never retry the payment call."),
        ("Check the fare before the refund is made.", "The fare should be checked after the refund is made."),
        ("Merge only if the build is green.", "The agent should merge even if the build is not green."),
        ("Include the return flight in the price.", "The agent should exclude the return flight from the price."),
        ("Offer the first flight.", "The agent should offer the last flight."),
    ],
)
def test_opposite_note_is_a_row_of_its_own(api_client: Any, project: Any, advice: str, note: str) -> None:
    lesson = serve(project, guideline=advice, trigger="When the task is of the kind airline", polarity="avoid")
    record(api_client, score=0, mistakes=[note])

    reflect_on_all()

    lesson.refresh_from_db()
    proposal = Proposal.objects.get()
    assert (lesson.support, proposal.effect, proposal.near_id) == (0, "merge", lesson.pk)
    assert proposal.findings[-1]["code"] == "may_repeat"


# ── The same fact in many words ───────────────────────────────────────────────────────────────────────────────────
def read_wordings() -> list[dict[str, str]]:
    with WORDINGS.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("seed", nightly_unless(lambda seed: seed == 1, [1, 2, 3]))
def test_sixty_wordings_of_three_facts_are_few_rows(api_client: Any, project: Any, seed: int) -> None:
    rows = read_wordings()
    random.Random(seed).shuffle(rows)
    runs = {record(api_client, score=0, agent=row["client"], mistakes=[row["note"]]).pk: row["fact"] for row in rows}

    reflect_on_all()

    leaders = list(Heuristic.objects.proposed().leading())
    facts = [{runs[each.trajectory_id] for each in find_group_evidence(leader)} for leader in leaders]
    assert [len(of_row) for of_row in facts] == [1] * len(leaders)
    assert len(leaders) <= 5


@pytest.mark.parametrize("seed", nightly_unless(lambda seed: seed == 1, [1, 2, 3]))
def test_sixty_wordings_of_three_mistakes_are_few_cards(api_client: Any, project: Any, seed: int) -> None:
    rows = read_wordings()
    random.Random(seed).shuffle(rows)
    cards = [
        record(api_client, agent="bot", mistake_cards=[{"mistake_type": "mistake", "correct_decision": row["note"]}])
        for row in rows
    ]
    for card in MistakeCard.objects.order_by("created_at", "pk"):
        settle_cards([card.pk], new_ids=[card.pk])

    assert len(cards) == 60
    assert MistakeCard.objects.unmerged().count() <= 5


def consolidate(project: Any) -> ConsolidationRun:
    run = request_consolidation(project, cause=ConsolidationRun.Cause.COMMAND, by=BY)
    done = run_consolidation(run.pk, owner="test")
    assert done is not None
    return done
