"""A language model proposes changes: read strictly, tried on recorded runs, paid from the budget, only proposed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from memory.database_clock import database_now
from memory.failpoints import FailpointError, armed
from memory.projects.models import Project
from memory.runs.models import Trajectory
from reflection.llm.models import DailySpend, ModelCall
from runtime.changes.drafts import read_answer
from runtime.changes.evidence import collect
from runtime.changes.proposer import version
from runtime.changes.rehearsals import choose_runs
from runtime.changes.sleep import send_to_sleep
from runtime.models.agents import Agent
from runtime.models.changes import Change
from tests.runtime.changing import Service, make_shop_agent, refund, sleep
from tests.runtime.running import Script, go_on, make_run
from tests.scripted_answers import Exchange, answer, fails
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.django_db
TOKENS = {"BRIEF": 100, "WORDY": 5_000}  # of each answer, by a word of the instructions
FOLLOWING = "No, the order is paid back, not cancelled."


def prompt(word: str) -> dict[str, str]:
    return {"kind": "prompt", "reason": f"Runs show that it should be {word}.", "content": f"You refund. Be {word}."}


BRIEF, WORDY, RECKLESS = map(prompt, ("BRIEF", "WORDY", "RECKLESS"))
NO_JSON = {"kind": "rules", "reason": "Ask first.", "content": "Always ask first."}
NEVER = {
    "kind": "rules",
    "reason": "Nobody should have to wait.",
    "content": json.dumps([{"type": "requires_approval", "tool": "pay_back"}]),
}


class Model:
    """Answers the proposer with its candidates, and rehearsals as an agent with these instructions would work."""

    def __init__(self) -> None:
        self.candidates: tuple[dict[str, Any], ...] = ()

    def __call__(self, exchange: Exchange) -> None:
        messages = exchange.request.body["messages"]
        system = messages[0]["content"]
        if system.startswith("You propose changes"):
            answer({"candidates": list(self.candidates)})(exchange)
            return
        order: list[tuple[str, dict[str, Any]]] = [
            ("read_order", {"order": "A1"}),
            ("pay_back", {"order": "A1", "amount": 150}),
        ]
        looks_up = any("Look up" in str(said["content"]) for said in messages)
        calls = order[: 1 if looks_up or "RECKLESS" in system else 2]
        turn = sum(said["role"] == "assistant" for said in messages)
        tokens = next((count for word, count in TOKENS.items() if word in system), 1_000)
        made = calls[turn : turn + 1]
        answer("" if made else "Done.", *made, input_tokens=tokens)(exchange)


@pytest.fixture
def shop() -> Iterator[Service]:
    with Service().running() as service:
        yield service


@pytest.fixture
def agent(shop: Service) -> Agent:
    """An agent that has paid back an order and looked one up, and failed at a third, of which the user complained."""
    agent = make_shop_agent(shop)
    agent.sleep_after_runs = 1
    agent.save()
    refund(agent, family="refunds")
    look_up = make_run(agent, "Look up order A1", task_id="questions")
    go_on(look_up, Script([("read_order", {"order": "A1"})], "It costs 150."))
    failed = make_run(agent, "Refund order B2", task_id="refunds")
    go_on(failed, Script("It is cancelled."))
    go_on(make_run(agent, FOLLOWING, conversation=failed.conversation), Script("Sorry."))
    Trajectory.objects.filter(agent_run=failed.pk).update(outcome="failure", outcome_source="human")
    Trajectory.objects.filter(agent_run__task=FOLLOWING).update(outcome="failure", outcome_source="human")
    return agent


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def provider(settings: Any, model: Model) -> Iterator[ScriptedProvider]:
    with ScriptedProvider(otherwise=model) as provider:
        settings.ERL_LLM_PROVIDER = "openai-compatible"
        settings.ERL_LLM_BASE_URL = provider.openai_url
        settings.ERL_LLM_MODEL = "scripted-1"
        yield provider


def sleep_with(model: Model, *candidates: dict[str, Any]) -> str:
    model.candidates = candidates
    send_to_sleep()
    return sleep()


def test_best_candidate_is_proposed_and_it_is_said_what_became_of_the_others(
    agent: Agent, provider: ScriptedProvider, model: Model
) -> None:
    assert sleep_with(model, BRIEF, WORDY, RECKLESS, NO_JSON) == "done"

    change = Change.objects.get()
    assert (change.target.system, change.source, change.rung) == (BRIEF["content"], "sleep", "proposed")
    assert change.evidence["prompt_version"] == version()
    assert change.evidence["rehearsed"]["refunds"] == {"tasks": 1, "solved": 1, "steps": 3, "tokens": 570}
    agent.refresh_from_db()
    assert agent.current != change.target
    assert agent.sleep_said == (
        "The language model gave 4 candidates; proposed: 1. Unusable: 1. The content is not usable JSON. Expecting "
        "value: line 1, column 1. Broke recorded runs of refunds: 1. Beaten by another in every family: 1."
    )


def test_model_reads_what_failed_and_what_people_said(agent: Agent, provider: ScriptedProvider, model: Model) -> None:
    sleep_with(model)

    asked = provider.requests[0].user_text
    assert "Refund order B2" in asked
    assert FOLLOWING in asked
    assert '"family":"refunds"' in asked
    assert not Change.objects.exists()


def test_killed_sleep_asks_and_pays_no_question_twice(agent: Agent, provider: ScriptedProvider, model: Model) -> None:
    def stop() -> None:
        raise FailpointError

    before = DailySpend.objects.get(project=agent.project).calls
    with armed("sleep.before_end", stop):
        sleep_with(model, BRIEF)
    asked = len(provider.requests)
    assert sleep() == "done"

    assert (len(provider.requests), Change.objects.count()) == (asked, 1)
    spent = DailySpend.objects.get(project=agent.project).calls - before
    assert (spent, ModelCall.objects.filter(job__kind="agent_sleep").count()) == (asked, asked)


def test_sleep_without_budget_waits_for_the_next_day(agent: Agent, provider: ScriptedProvider, model: Model) -> None:
    Project.objects.filter(pk=agent.project_id).update(daily_call_budget=0)

    assert sleep_with(model, BRIEF) == "deferred_budget"

    assert (provider.requests, Change.objects.count()) == ([], 0)


def test_provider_that_refuses_ends_no_sleep(agent: Agent, provider: ScriptedProvider, model: Model) -> None:
    provider.script(fails(401, message="The key is wrong."))
    send_to_sleep()

    assert sleep() == "done"

    agent.refresh_from_db()
    assert "was asked in vain" in agent.sleep_said
    assert not Change.objects.exists()


def test_candidate_about_what_never_evolves_is_refused(agent: Agent, provider: ScriptedProvider, model: Model) -> None:
    sleep_with(model, NEVER)

    agent.refresh_from_db()
    assert "Unusable: 1. A change cannot be of the kind approval_policy" in agent.sleep_said
    assert not Change.objects.exists()


def test_nothing_is_asked_where_nothing_went_wrong(shop: Service, provider: ScriptedProvider) -> None:
    agent = make_shop_agent(shop)
    Agent.objects.filter(pk=agent.pk).update(sleep_after_runs=1)
    refund(agent)
    send_to_sleep()

    assert (sleep(), provider.requests) == ("done", [])


def test_nothing_is_asked_where_only_rules_may_reflect(agent: Agent, provider: ScriptedProvider, settings: Any) -> None:
    settings.ERL_REFLECTOR = "rules"
    send_to_sleep()

    assert (sleep(), provider.requests) == ("done", [])


def test_runs_that_failed_are_not_rehearsed(agent: Agent) -> None:
    assert {run.task for run in choose_runs(agent.pk)} == {"Refund order A1", "Look up order A1"}


def test_evidence_has_what_users_said_after_failures_and_costs(agent: Agent) -> None:

    shown = collect(agent, until=database_now())

    assert shown["CORRECTIONS"] == [{"after": "Refund order B2", "the_user_said": FOLLOWING}]
    assert {each["family"]: each["runs"] for each in shown["COSTS BY FAMILY"]} == {"refunds": 2, "questions": 1, "": 1}


@pytest.mark.parametrize(
    ("said", "finish", "why"),
    [
        ("Sure! Here is what I would change.", "stop", "not usable JSON"),
        ('{"candidates": [', "length", "cut off"),
        ("", "stop", "empty"),
        ("", "refusal", "refused"),
        ('{"candidates": {}}', "stop", "wrong shape"),
        ('{"candidates": [{"kind": "logging", "reason": "It is noisy.", "content": "none"}]}', "stop", "wrong shape"),
        (json.dumps({"candidates": [BRIEF | {"more": 1}]}), "stop", "wrong shape"),
        (
            json.dumps({"candidates": [BRIEF | {"kind": "settings", "content": '{"model": "x"}'}]}),
            "stop",
            "wrong shape",
        ),
        (json.dumps({"candidates": [BRIEF | {"kind": "tool", "content": "{}"}]}), "stop", "wrong shape"),
    ],
)
def test_unusable_answer_says_why(said: str, finish: str, why: str) -> None:
    read = read_answer(said, finish_reason=finish, evidence={})

    assert (read.proposals, len(read.unusable)) == ((), 1)
    assert why in read.unusable[0]


def test_one_bad_candidate_spoils_no_other() -> None:
    tool = {
        "name": "look_up",
        "description": "Reads an order.",
        "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
        "source": "def look_up(order: str) -> int:\n    return 1\n",
        "examples": [{"arguments": {"order": "A1"}, "answer": 1}],
    }
    candidates = [BRIEF, NO_JSON, BRIEF | {"kind": "tool", "content": json.dumps(tool)}, WORDY, WORDY, WORDY]

    read = read_answer(json.dumps({"candidates": candidates}), finish_reason="stop", evidence={})

    assert [bool(each.tools) for each in read.proposals] == [False, True, False]
    assert [each.partition(";")[0] for each in read.unusable] == [
        "There are 6 candidates",
        "The content is not usable JSON. Expecting value: line 1, column 1.",
    ]
