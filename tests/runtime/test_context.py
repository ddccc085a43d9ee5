"""What the model reads: rebuilt to the byte, shortened where it is too long, the same from step to step."""

from typing import Any

import pytest

from reflection.llm.chat import ChatRequest
from runtime.context.prompt import hash_prompt, rebuild_request, write_prompt
from runtime.limits import Compacting
from runtime.models.runs import Run
from runtime.models.tools import ToolKind
from runtime.tools.catalogue import LoopTool, core_tools
from tests.runtime.running import Script, Turn, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def _long_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer a tool that returns a long text."""
    tool = LoopTool(
        name="look",
        description="Look.",
        parameters={"type": "object"},
        kind=ToolKind.PURE,
        execute=lambda effect: f"{effect.index} " + "word " * 400,
    )
    monkeypatch.setitem(core_tools(), "look", tool)


def look(times: int) -> list[Turn]:
    return [[("look", {"page": page})] for page in range(times)]


def run_long(turns: list[Turn], *, window_tokens: int = 4_000, **spec: Any) -> tuple[Run, Script]:
    agent = make_agent(tools=["look", "read_result"], window_tokens=window_tokens, max_output_tokens=500, **spec)
    run, script = make_run(agent), Script(*turns)
    go_on(run, script)
    return run, script


@pytest.mark.usefixtures("_long_tool")
def test_every_prompt_is_rebuilt_to_the_byte() -> None:
    run, script = run_long([*look(10), "Done."])

    rebuilt = [rebuild_request(step) for step in run.steps.order_by("seq")]

    assert [write_prompt(each) for each in rebuilt] == [write_prompt(each) for each in script.asked]
    assert [hash_prompt(each) for each in rebuilt] == [step.prompt_sha256 for step in run.steps.order_by("seq")]


@pytest.mark.usefixtures("_long_tool")
def test_old_results_are_left_out_where_the_window_is_full() -> None:
    run, script = run_long([*look(10), "Done."])

    results = [said.content for said in script.asked[-1].messages if said.role == "tool"]
    assert results[0].startswith("[Result 3 of look, 2,0")
    assert results[-1].startswith("0 word")
    assert {each.method for each in run.conversation.compactions.all()} == {"mask"}


@pytest.mark.usefixtures("_long_tool")
def test_left_out_result_can_be_read_again() -> None:
    run, _ = run_long([*look(10), [("read_result", {"result": 3, "count": 6})], "Done."])

    assert run.effects.get(tool="read_result").result.startswith("0 word\n[")


@pytest.mark.usefixtures("_long_tool")
def test_prompt_keeps_its_beginning_between_compactions() -> None:
    run, script = run_long([*look(10), "Done."])

    changed = sum(not _continues(one, two) for one, two in zip(script.asked, script.asked[1:], strict=False))

    assert changed == run.conversation.compactions.count() < 10


@pytest.mark.usefixtures("_long_tool")
def test_messages_are_summarised_where_leaving_out_results_is_not_enough() -> None:
    run, script = run_long([*look(24), "Done."], window_tokens=2_000)

    assert run.status == "succeeded"
    assert "extract" in {each.method for each in run.conversation.compactions.all()}
    assert "Where is order 1?" in script.asked[-1].messages[1].content
    assert run.messages.count() == 50


def test_fixed_part_that_does_not_fit_is_refused_clearly() -> None:
    run = make_run(make_agent(system="word " * 4_000, window_tokens=4_000, max_output_tokens=500))

    go_on(run, Script())

    assert (run.status, run.stop_reason) == ("failed", "context_overflow")
    assert run.error.startswith("The instructions, memory, lessons and tools alone do not fit")


def test_message_that_does_not_fit_is_refused_as_one() -> None:
    run = make_run(make_agent(window_tokens=4_000, max_output_tokens=500), "word " * 4_000)

    go_on(run, Script())

    assert (run.status, run.stop_reason) == ("failed", "context_overflow")
    assert run.error.startswith("The newest messages do not fit")


def _continues(one: ChatRequest, two: ChatRequest) -> bool:
    return two.messages[: len(one.messages)] == one.messages


@pytest.mark.usefixtures("_long_tool")
def test_results_of_one_answer_share_the_room_evenly() -> None:
    run, script = run_long([[("look", {"page": page}) for page in range(8)], "Done."])

    results = [said.content for said in script.asked[-1].messages if said.role == "tool"]
    lengths = {len(result.partition("\n[Cut here")[0]) for result in results}
    assert (run.status, len(results), len(lengths)) == ("succeeded", 8, 1)
    assert all(result.startswith(f"{index} word") for index, result in enumerate(results))


@pytest.mark.usefixtures("_long_tool")
def test_nothing_is_left_out_that_the_model_has_not_read() -> None:
    _, script = run_long(
        [*look(5), [("look", {"page": page}) for page in range(8)], "Done."],
        compaction=Compacting(keep_results=1, at=0.5),
    )

    last = [said.content for said in script.asked[-1].messages if said.role == "tool"][-8:]
    assert [result.partition(" ")[0] for result in last] == [str(index) for index in range(8)]


@pytest.mark.usefixtures("_long_tool")
def test_tool_that_reads_on_is_offered_where_a_result_was_cut() -> None:
    run = make_run(make_agent(tools=["look"], window_tokens=4_000, max_output_tokens=500))
    script = Script(
        [("look", {"page": page}) for page in range(8)], [("read_result", {"result": 3, "count": 6})], "Done."
    )

    go_on(run, script)

    offered = [[tool.name for tool in request.tools] for request in script.asked]
    assert offered == [["look"], ["look", "read_result"], ["look", "read_result"]]
    assert run.effects.get(tool="read_result").result.startswith("0 word")
    assert [hash_prompt(rebuild_request(step)) for step in run.steps.order_by("seq")] == [
        hash_prompt(request) for request in script.asked
    ]
