"""The suite `live` against a scripted provider: limits, resuming, concurrency."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from evaluation.environments.office import FAMILIES, make_tasks, open_office
from evaluation.environments.office_agent import OfficeWithModel
from evaluation.errors import EvaluationError
from evaluation.ledger import CAP_REACHED, Ledger
from evaluation.models import EvaluationRun
from evaluation.runner import create_run, execute_run
from evaluation.suites.base import Options
from reflection.llm.base import ProviderError
from reflection.llm.chat import ChatRequest
from reflection.llm.registry import close_provider, get_provider
from tests.scripted_answers import Exchange, answer
from tests.scripted_provider import ScriptedProvider

pytestmark = [pytest.mark.nightly, pytest.mark.slow]

FINISH = ("finish", {"answer": "7"})
SKIP = json.dumps({"learn": False, "skip_reason": "Nothing to learn."})
LIVE = Options(suites=("live",), arms=("none", "hybrid:5"), limit=2, experience=2, trials=2, concurrency=3)


def play(exchange: Exchange) -> None:
    """Finish every task at once and learn nothing."""
    is_agent = "You work in an office" in json.dumps(exchange.request.body)
    (answer("Done.", FINISH) if is_agent else answer(SKIP))(exchange)


@pytest.fixture
def provider(settings: Settings) -> Iterator[ScriptedProvider]:
    with ScriptedProvider(otherwise=play) as scripted:
        settings.ERL_LLM_PROVIDER = "openai-compatible"
        settings.ERL_LLM_MODEL = "scripted-1"
        settings.ERL_LLM_BASE_URL = scripted.openai_url
        settings.ERL_LLM_INPUT_USD_PER_MTOK = 1.0
        settings.ERL_LLM_OUTPUT_USD_PER_MTOK = 10.0
        yield scripted
        close_provider()


def ask(text: str) -> ChatRequest:
    return ChatRequest.single(system="You work in an office.", user=text, max_output_tokens=100)


def make_ledger(journal: Path | None = None, **limits: Any) -> Ledger:
    return Ledger(get_provider(), journal=journal, **{"max_calls": None, "max_cost_usd": None} | limits)


def outcome(ledger: Ledger, text: str) -> str:
    try:
        return ledger(ask(text)).text
    except ProviderError as error:
        return error.code


def test_limit_on_calls_holds_while_many_ask_at_once(provider: ScriptedProvider) -> None:
    ledger = make_ledger(max_calls=3)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns wherever they can

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda number: outcome(ledger, f"Question {number}"), range(40)))
    sys.setswitchinterval(interval)

    assert (said.count("Done."), said.count(CAP_REACHED)) == (3, 37)
    assert len(provider.requests) == ledger.paid_calls == 3


def test_limit_on_cost_is_never_exceeded(provider: ScriptedProvider) -> None:
    one = make_ledger()
    one(ask("How much is a call?"))

    ledger = make_ledger(max_cost_usd=0.0025)
    said = [outcome(ledger, f"Question {number}") for number in range(5)]

    assert "Done." in said
    assert said[-1] == CAP_REACHED
    assert 0 < ledger.paid_usd <= 0.0025


def test_no_call_is_paid_for_twice(provider: ScriptedProvider, tmp_path: Path) -> None:
    journal = tmp_path / "calls.jsonl"
    first = make_ledger(journal)
    first(ask("One"))
    first(ask("One"))
    with journal.open("a") as file:
        file.write('{"question_sha256": "cut off when the run was kill')

    second = make_ledger(journal, max_calls=3)
    said = [outcome(second, text) for text in ("One", "One", "Two", "Three")]

    assert said == ["Done.", "Done.", "Done.", CAP_REACHED]
    assert len(provider.requests) == 3


def test_every_call_is_logged_with_its_tokens(provider: ScriptedProvider, tmp_path: Path) -> None:
    make_ledger(tmp_path / "calls.jsonl")(ask("One"))

    [entry] = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]

    assert {"at", "input_tokens", "output_tokens", "cost_usd", "latency_ms", "model"} <= entry.keys()
    assert "One" not in json.dumps(entry)


@pytest.mark.django_db(transaction=True)
def test_live_runs_and_resumes_without_paying_again(provider: ScriptedProvider) -> None:
    run = execute_run(create_run(LIVE, by="test"))
    paid = len(provider.requests)
    results = run.results["suites"]
    EvaluationRun.objects.filter(pk=run.pk).update(status="failed", units={})

    again = execute_run(EvaluationRun.objects.get(pk=run.pk))

    [suite] = results
    assert (suite["n"], [row["arm"] for row in suite["arms"]]) == (2, ["none", "hybrid:5"])
    assert suite["arms"][0]["turns_mean"] == 1
    assert suite["arms"][0]["cost_usd_mean"] > 0
    assert paid >= 2 + 2 * 2 * 2
    assert len(provider.requests) == paid
    assert again.results["suites"] == results


@pytest.mark.django_db(transaction=True)
def test_limit_stops_live_and_the_report_says_so(provider: ScriptedProvider) -> None:
    run = execute_run(create_run(Options(**LIVE.as_json() | {"suites": ("live",), "max_calls": 8}), by="test"))

    [suite] = run.results["suites"]
    assert len(provider.requests) == 8
    assert suite["n"] < 2
    assert any("prevented" in note for note in suite["notes"])


def test_live_without_a_provider_says_what_to_set(db: None) -> None:
    with pytest.raises(EvaluationError, match="ERL_LLM_PROVIDER"):
        create_run(LIVE, by="test")


def test_agent_gets_lessons_and_answers_of_the_tools(provider: ScriptedProvider) -> None:
    [task] = make_tasks("test", seed=0)[:1]
    provider.script(answer("", ("send_mail", {"to": "Kofi"})), answer("I am done."))

    played = OfficeWithModel(make_ledger()).run(task, lessons="<lessons>Look people up.</lessons>", trial=0)

    assert "Look people up." in provider.requests[0].body["messages"][0]["content"]
    assert [step["observation"][:6] for step in played.steps] == ["Error:", "over"]
    assert (played.turns, played.success) == (3, False)


@pytest.mark.parametrize("number", range(4), ids=FAMILIES)
def test_office_task_is_done_if_its_rules_are_kept(number: int) -> None:
    task = make_tasks("test", seed=0)[number]
    office = open_office(task.id)
    kind, value = office.wanted["kind"], office.wanted["value"]
    actions: dict[str, list[tuple[str, dict[str, str]]]] = {
        "mail": [("send_mail", {"to": value[0], "text": f"{value[1]}."})],
        "total": [("finish", {"answer": str(value)})],
        "refund": [("refund_order", {"order": str(value), "code": f"R-{value}"})],
        "event": [("add_event", {"title": value[0], "date": value[1]})],
    }

    said = [office.call(tool, arguments) for tool, arguments in actions[kind]]

    assert office.is_done
    assert "Error" not in said[-1]


def test_office_refuses_actions_against_its_rules() -> None:
    office = open_office("test-0-00")

    assert office.call("send_mail", {"to": "Kofi", "text": "x"}).startswith("Error")
    assert office.call("add_event", {"title": "x", "date": "3 March"}).startswith("Error")
    assert office.call("refund_order", {"order": "1"}).startswith("Error")
    assert office.call("dance", {}).startswith("Error")
    assert not office.is_done


def test_the_splits_have_different_people() -> None:
    source, test = make_tasks("source", seed=0), make_tasks("test", seed=0)

    people = [open_office(task.id).addresses.keys() for task in (source[0], test[0])]

    assert people[0].isdisjoint(people[1])
    assert {task.text for task in source}.isdisjoint(task.text for task in test)
