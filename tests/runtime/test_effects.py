"""What happens to calls of tools: refused, carried out once, found again after a crash."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from memory.blocks.edits import NewBlock, create_block
from memory.failpoints import FailpointError, armed
from memory.projects.actors import Actor
from reflection.jobs.execution import Outcome
from reflection.jobs.models import Job
from reflection.llm.models import ModelCall
from runtime.approvals import decide_effect
from runtime.definitions.python_file import read_definitions
from runtime.definitions.storage import save_tool
from runtime.errors import OutcomeUnknown
from runtime.loop.actions import ExecuteEffect, MarkUnknown, next_action
from runtime.loop.execution import RunAttempt
from runtime.loop.rows import load_rows, read_history
from runtime.models.agents import Agent
from runtime.models.effects import Effect
from runtime.models.runs import Run
from runtime.revisions import AgentSpec, create_agent
from runtime.runs import cancel_run
from runtime.tools.catalogue import LoopTool, core_tools, pin_tools
from tests.factories import make_project
from tests.runtime.running import BY, Script, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
FILE = '''
import json

from runtime.definitions import tool

@tool(kind="pure")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number

@tool(uses=["send_message", "double"], kind="pure")
def tell(number: int) -> str:
    """Tell the user twice a number."""
    twice = double(number)
    send_message(message=f"It is {twice}.")
    return "Told."

@tool(uses=["note", "send_message"], kind="pure")
def note_and_tell(text: str) -> str:
    """Note a text and tell it."""
    note(text=text)
    send_message(message=text)
    return "Told."

@tool(uses=["double"], kind="pure")
def insist(text: str) -> int:
    """Double what a text says, or else 20 and 1."""
    try:
        return double(json.loads(text))
    except RuntimeError:
        return double(20) + double(1)
'''


def make_python_agent(*names: str, rules: tuple[dict[str, Any], ...] = ()) -> Agent:
    """Make an agent with tools of the file."""
    project = make_project()
    for definition in read_definitions(FILE).tools:
        if set(definition.uses) <= {*core_tools(), "double"}:
            save_tool(project, definition, by=BY, approve=True)
    spec = AgentSpec(tools=tuple(pin_tools(project, names)), rules=rules)
    return create_agent(project, name="python", spec=spec, by=BY)


def register(monkeypatch: pytest.MonkeyPatch, kind: str, **schema: Any) -> list[str]:
    """Offer a tool of a kind whose calls are listed."""
    called: list[str] = []

    def note(effect: Effect) -> str:
        called.append(str(effect.pk))
        return "noted"

    tool = LoopTool(name="note", description="Note.", parameters={"type": "object"} | schema, kind=kind, execute=note)
    monkeypatch.setitem(core_tools(), "note", tool)
    return called


def fail() -> None:
    raise FailpointError


def crash(run: Run, *, at: str) -> None:
    """Let a worker begin a call of `note` and fail at a point, as a killed one does: nothing of it is written."""
    with armed(at, fail):
        go_on(run, Script([("note", {})]))
    run.refresh_from_db()


def test_unknown_tool_is_refused_and_the_agent_reads_it() -> None:
    run, script = make_run(make_agent()), Script([("fly", {})], "Then not.")

    go_on(run, script)

    assert run.effects.get().status == "refused"
    assert script.asked[1].messages[-1].content == "Error: There is no tool 'fly'."


def test_wrong_arguments_are_refused() -> None:
    run = make_run(make_agent(tools=["send_message"]))

    go_on(run, Script([("send_message", {"text": "Hi"})], "Then not."))

    assert run.effects.get().status == "refused"


def test_idempotent_call_is_repeated_under_its_id_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    called = register(monkeypatch, Effect.Kind.IDEMPOTENT)
    run = make_run(make_agent(tools=["note"]))
    crash(run, at="agent.effect_done")

    go_on(run, Script("Done."))

    assert (run.status, len(called), len(set(called))) == ("succeeded", 2, 1)


def test_unsafe_call_is_unknown_after_a_crash_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    called = register(monkeypatch, Effect.Kind.UNSAFE)
    run = make_run(make_agent(tools=["note"]))
    crash(run, at="agent.effect_done")

    go_on(run, Script())

    assert (run.status, run.effects.get().status, len(called)) == ("waiting", "unknown", 1)


def test_call_without_an_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(effect: Effect) -> str:
        raise OutcomeUnknown("No answer came.")

    tool = LoopTool(name="note", description=".", parameters={"type": "object"}, kind=Effect.Kind.UNSAFE, execute=lose)
    monkeypatch.setitem(core_tools(), "note", tool)
    run = make_run(make_agent(tools=["note"]))

    go_on(run, Script([("note", {})]))

    assert (run.status, run.effects.get().status) == ("waiting", "unknown")


def test_person_says_how_an_unknown_call_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    called = register(monkeypatch, Effect.Kind.UNSAFE)
    run = make_run(make_agent(tools=["note"]))
    crash(run, at="agent.effect_done")
    go_on(run, Script())
    effect = run.effects.get()

    decide_effect(effect, decision="answer", arguments_sha256=effect.arguments_sha256, by=BY, answer="It is noted.")
    go_on(run, Script("Done."))

    assert (run.status, run.effects.get().result, len(called)) == ("succeeded", "It is noted.", 1)


def test_local_call_and_its_record_are_one_transaction() -> None:
    run = make_run(make_agent(tools=["send_message"]))
    with armed("agent.local_before_commit", fail):
        go_on(run, Script([("send_message", {"message": "Hi"})]))

    go_on(run, Script("Done."))

    assert list(run.messages.filter(is_reply=True).values_list("content", flat=True)) == ["Hi", "Done."]


def test_answer_of_the_model_is_found_again_after_a_crash() -> None:
    run, script = make_run(make_agent()), Script("Paid for.")
    with armed("agent.answered", fail):
        go_on(run, script)

    go_on(run, Script())

    assert (run.status, run.steps_taken, len(script.asked)) == ("succeeded", 1, 1)


def test_tool_in_the_sandbox_calls_other_tools() -> None:
    run = make_run(make_python_agent("tell"))

    go_on(run, Script([("tell", {"number": 21})], "Done."))

    assert list(run.effects.order_by("id").values_list("tool", "status")) == [
        ("tell", "succeeded"),
        ("double", "succeeded"),
        ("send_message", "succeeded"),
    ]
    assert run.messages.filter(content="It is 42.", is_reply=True).count() == 1


def test_approval_inside_a_tool_stops_it_there() -> None:
    rules = ({"type": "requires_approval", "tool": "send_message"},)
    run = make_run(make_python_agent("tell", "send_message", rules=rules))
    go_on(run, Script([("tell", {"number": 21})]))
    waiting = run.effects.get(status="waiting")
    assert (run.status, waiting.tool, waiting.parent.tool) == ("waiting", "send_message", "tell")  # type: ignore[union-attr]

    decide_effect(waiting, decision="approve", arguments_sha256=waiting.arguments_sha256, by=Actor(label="user:bo"))
    go_on(run, Script("Done."))

    assert run.messages.filter(content="It is 42.", is_reply=True).count() == 1
    assert run.effects.get(tool="tell").result == "Told."


def test_what_a_tool_did_before_it_waited_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    called = register(monkeypatch, Effect.Kind.UNSAFE, properties={"text": {"type": "string"}})
    rules = ({"type": "requires_approval", "tool": "send_message"},)
    run = make_run(make_python_agent("note_and_tell", "send_message", rules=rules))
    go_on(run, Script([("note_and_tell", {"text": "Tea"})]))
    waiting = run.effects.get(status="waiting")

    edited = {"message": "Green tea"}
    decide_effect(waiting, decision="edit", arguments_sha256=waiting.arguments_sha256, by=BY, arguments=edited)
    crash(run, at="agent.local_before_commit")
    go_on(run, Script("Done."))

    assert (run.status, len(called)) == ("succeeded", 1)
    assert list(run.messages.filter(is_reply=True).values_list("content", flat=True)) == ["Green tea", "Done."]
    assert run.effects.get(tool="note_and_tell").result == "Told."


def test_call_of_a_tool_with_arguments_that_do_not_fit_leaves_no_gap() -> None:
    run = make_run(make_python_agent("insist"))

    go_on(run, Script([("insist", {"text": '"x"'})], "Done."))

    effect = run.effects.get(tool="insist")
    assert (effect.error, effect.result) == ("", "42")


def test_second_worker_does_not_take_a_run_that_another_works_on() -> None:
    run, attempts = make_run(make_agent()), list[RunAttempt]()

    def look_aside(request: Any) -> str:
        attempts.append(go_on(run, Script(), owner="second"))
        return "Done."

    go_on(run, Script(look_aside), owner="first")

    assert (run.status, attempts[0].outcome) == ("succeeded", Outcome.NOTHING)


def test_worker_that_was_held_up_writes_nothing_after_another_went_on() -> None:
    run = make_run(make_agent())

    def hold_up(request: Any) -> str:
        Job.objects.filter(subject=str(run.pk)).update(lease_until=Now() - timedelta(seconds=1))
        go_on(run, Script("Here."), owner="second")
        return "Late."

    attempt = go_on(run, Script(hold_up), owner="first")

    assert (run.status, run.steps_taken, attempt.outcome) == ("succeeded", 1, Outcome.LOST)
    assert list(run.messages.filter(is_reply=True).values_list("content", flat=True)) == ["Here."]
    assert ModelCall.objects.filter(subject=f"run:{run.pk}").count() == 1


def test_worker_that_was_held_up_before_a_call_does_not_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    called = register(monkeypatch, Effect.Kind.UNSAFE)
    run = make_run(make_agent(tools=["note"]))
    now = time.monotonic()

    with armed("agent.effect_started", lambda: monkeypatch.setattr(time, "monotonic", lambda: now + 7200)):
        attempt = go_on(run, Script([("note", {})]))

    assert (attempt.outcome, called) == (Outcome.LOST, [])


def test_agent_edits_its_block_and_reads_it_from_its_next_step_on() -> None:
    project = make_project()
    block = create_block(project, NewBlock(label="human", value="Name: Ana"), by=BY)
    blocks = ({"label": "human", "block": str(block.pk)},)
    agent = make_agent(project=project, tools=["memory_append"], blocks=blocks)
    first = Script([("memory_append", {"label": "human", "text": "Likes tea."})], "Noted.")
    go_on(make_run(agent), first)

    script = Script("You like tea.")
    go_on(make_run(agent, "What do I like?"), script)

    assert "Likes tea." not in first.asked[0].messages[0].content
    assert "Name: Ana\nLikes tea." in first.asked[1].messages[0].content
    assert "Name: Ana\nLikes tea." in script.asked[0].messages[0].content


def test_passage_is_kept_and_found() -> None:
    run = make_run(make_agent(tools=["archival_insert", "archival_search"]))

    go_on(
        run,
        Script(
            [("archival_insert", {"text": "The gate code is 4711.", "tags": ["gate"]})],
            [("archival_search", {"query": "gate code"})],
            "4711.",
        ),
    )

    assert "4711" in run.effects.get(tool="archival_search").result


def test_many_long_results_in_one_answer_are_kept_and_not_read_before_each_action(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "word " * 40_000
    tool = LoopTool(
        name="look", description=".", parameters={"type": "object"}, kind=Effect.Kind.PURE, execute=lambda effect: text
    )
    monkeypatch.setitem(core_tools(), "look", tool)
    rules = ({"type": "max_count_per_run", "tool": "look", "count": 50},)
    run = make_run(make_agent(tools=["look", "read_result"], rules=rules, window_tokens=8_000, max_output_tokens=500))
    script = Script([("look", {})] * 50, [("read_result", {"result": 3, "start": 150_000})], "Done.")

    go_on(run, script)

    assert (run.status, run.effects.filter(tool="look", status="succeeded").count()) == ("succeeded", 50)
    assert run.effects.get(tool="read_result").result.startswith("word word")
    assert {each.output for each in read_history(run)} == {""}


def test_rule_about_results_reads_that_of_the_last_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Effect.Kind.PURE)
    rules = ({"type": "conditional", "tool": "note", "outcomes": {"never": "send_message"}},)
    run = make_run(make_agent(tools=["note", "send_message"], rules=rules))

    go_on(run, Script(*[[("note", {"text": str(number)})] for number in range(3)], "Done."))

    outputs = [each.output for each in read_history(run)]
    assert outputs == ["", "", "noted"]


@pytest.mark.parametrize("rules", [(), ({"type": "requires_approval", "tool": "send_message"},)])
def test_calls_are_not_read_where_no_rule_is_about_them(
    monkeypatch: pytest.MonkeyPatch, rules: tuple[dict[str, Any], ...]
) -> None:
    register(monkeypatch, Effect.Kind.PURE)
    run = make_run(make_agent(tools=["note", "send_message"], rules=rules))
    go_on(run, Script([("note", {"text": "1"})], "Done."))

    assert read_history(run) == ()


def test_next_action_after_a_crash_depends_on_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Effect.Kind.UNSAFE)
    run = make_run(make_agent(tools=["note"]))
    crash(run, at="agent.effect_started")

    assert isinstance(next_action(load_rows(run.pk)), MarkUnknown)


def test_planned_call_is_carried_out_next() -> None:
    run = make_run(make_agent(tools=["send_message"]))
    with armed("agent.local_before_commit", fail):
        go_on(run, Script([("send_message", {"message": "Hi"})]))

    assert isinstance(next_action(load_rows(run.pk)), ExecuteEffect)


def test_unknown_call_of_a_cancelled_run_has_an_answer_and_can_be_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Effect.Kind.UNSAFE)
    run = make_run(make_agent(tools=["note"]))
    crash(run, at="agent.effect_done")
    cancel_run(run, by=BY)
    go_on(run, Script())
    effect = run.effects.get()

    decide_effect(effect, decision="reject", arguments_sha256=effect.arguments_sha256, by=BY)

    assert (run.status, run.effects.get().status) == ("cancelled", "rejected")
    assert run.messages.filter(tool_call_id=effect.call_id).count() == 1


def test_rule_about_counts_holds_for_calls_of_tools_in_the_sandbox() -> None:
    rules = ({"type": "max_count_per_run", "tool": "send_message", "count": 1},)
    run = make_run(make_python_agent("tell", "send_message", rules=rules))

    go_on(run, Script([("tell", {"number": 1}), ("tell", {"number": 2})], "Done."))

    assert run.messages.filter(content__startswith="It is", is_reply=True).count() == 1
    assert run.effects.get(tool="send_message", status="refused").parent is not None


def test_idempotent_call_that_had_begun_when_the_run_ended_is_not_said_to_be_uncalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register(monkeypatch, Effect.Kind.IDEMPOTENT)
    run = make_run(make_agent(tools=["note"]))
    crash(run, at="agent.effect_done")
    cancel_run(run, by=BY)

    go_on(run, Script())

    effect = run.effects.get()
    assert (effect.status, "may have happened" in effect.error) == ("failed", True)


def test_cancelled_run_does_not_wait_for_its_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, Effect.Kind.IDEMPOTENT)
    run = make_run(make_agent(tools=["note"]))
    crash(run, at="agent.effect_done")  # the next attempt is in seconds, after more of them in minutes

    cancel_run(run, by=BY)

    assert Job.objects.waiting().filter(subject=str(run.pk)).exists()
