"""How a run ends where the model's answer is no answer, and that the conversation goes on afterwards."""

from dataclasses import replace

import pytest

from reflection.llm.base import ProviderError
from reflection.llm.chat import ChatAnswer, ToolCall
from runtime.models.runs import Run
from runtime.models.tools import ToolKind
from runtime.tools.catalogue import LoopTool, core_tools
from tests.runtime.running import Script, Turn, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db


def ends(reason: str, text: str = "") -> Turn:
    """Answer with this finish reason."""
    return lambda request: Ended(reason, text)


class Ended(str):
    """A text that ended in some way."""

    reason: str

    def __new__(cls, reason: str, text: str) -> "Ended":
        ended = super().__new__(cls, text)
        ended.reason = reason
        return ended


class Ending(Script):
    def chat(self, request, *, on_text=None):  # type: ignore[no-untyped-def]
        turn = self.turns[0]
        made = turn(request) if callable(turn) else turn
        answer: ChatAnswer = super().chat(request, on_text=on_text)
        return replace(answer, finish_reason=made.reason) if isinstance(made, Ended) else answer


def play(*turns: Turn, **spec) -> tuple[Run, Ending]:  # type: ignore[no-untyped-def]
    run, script = make_run(make_agent(**spec)), Ending(*turns)
    go_on(run, script)
    return run, script


@pytest.mark.parametrize(
    ("turn", "stop_reason"),
    [
        (ends("stop"), "empty_answer"),
        (ends("stop", "  \n "), "empty_answer"),
        (ends("length"), "answer_cut_off"),
        (ends("length", "The order is"), "answer_cut_off"),
        (ends("error", "The"), "model_failed"),
    ],
    ids=["nothing", "blank", "nothing, cut", "torso", "error"],
)
def test_answer_that_is_none_is_asked_for_again_once(turn: Turn, stop_reason: str) -> None:
    run, script = play(turn, turn)

    assert (run.status, run.stop_reason, len(script.asked)) == ("failed", stop_reason, 2)
    assert run.trajectory is not None
    assert run.trajectory.outcome == "unknown"


@pytest.mark.parametrize("turn", [ends("stop"), ends("length", "The order is"), ends("error")])
def test_second_try_may_succeed_and_is_the_reply(turn: Turn) -> None:
    run, script = play(turn, "It is in Graz.")

    replies = list(run.messages.filter(is_reply=True).values_list("content", flat=True))
    assert (run.status, run.stop_reason, replies) == ("succeeded", "end_turn", ["It is in Graz."])
    assert script.asked[1].messages[-1].role == "user"


def test_answer_that_was_cut_has_more_room_at_the_second_try() -> None:
    _, script = play(ends("length", "The"), "It is in Graz.", max_output_tokens=500)

    assert [request.max_output_tokens for request in script.asked] == [500, 2_000]


@pytest.mark.parametrize(("reason", "stop_reason"), [("refusal", "refused"), ("content_filter", "filtered")])
@pytest.mark.parametrize("text", ["", "I cannot help with that."])
def test_refusal_ends_the_run_and_is_not_held_against_its_lessons(reason: str, stop_reason: str, text: str) -> None:
    run, _ = play(ends(reason, text))

    assert (run.status, run.stop_reason) == ("failed", stop_reason)
    assert run.trajectory is not None
    assert run.trajectory.outcome == "unknown"


def test_paused_answer_is_asked_on() -> None:
    run, script = play(ends("pause", "Let me think."), "It is in Graz.")

    assert (run.status, len(script.asked)) == ("succeeded", 2)


@pytest.fixture
def _look(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = LoopTool(
        name="look", description="Look.", parameters={"type": "object"}, kind=ToolKind.PURE, execute=lambda _: "same"
    )
    monkeypatch.setitem(core_tools(), "look", tool)


@pytest.mark.usefixtures("_look")
def test_same_call_with_the_same_result_is_told_and_then_ends_the_run() -> None:
    turns: list[Turn] = [[("look", {"at": 1})] for _ in range(20)]
    run, script = play(*turns, tools=["look"])

    assert (run.stop_reason, len(script.asked)) == ("no_progress", 8)
    assert "3 times with the same arguments" in script.asked[3].messages[-1].content


@pytest.mark.usefixtures("_look")
def test_calls_that_differ_are_no_repetition() -> None:
    run, _ = play(*[[("look", {"at": number})] for number in range(15)], "Done.", tools=["look"])

    assert run.status == "succeeded"


@pytest.mark.usefixtures("_look")
def test_three_answers_in_a_row_without_json_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tests.runtime.running._call",
        lambda index, answer, call: ToolCall.read(id=f"c{answer}", name="look", raw_arguments='{"at": '),
    )
    turns: list[Turn] = [[("look", {})] for _ in range(5)]
    run, script = play(*turns, tools=["look"])

    assert (run.stop_reason, len(script.asked)) == ("invalid_answer", 3)


def overflow(window_tokens: int | None) -> ProviderError:
    return ProviderError("Too long.", transient=False, code="context_overflow", window_tokens=window_tokens)


@pytest.mark.usefixtures("_look")
def test_prompt_that_is_too_long_for_the_model_is_shortened_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core_tools(), "look", replace(core_tools()["look"], execute=lambda effect: "word " * 900))
    looks: list[Turn] = [[("look", {"at": number})] for number in range(6)]
    run, script = make_run(make_agent(tools=["look"])), Script(*looks, overflow(4_000), "It is in Graz.")
    go_on(run, script)
    go_on(run, script)

    assert run.status == "succeeded"
    assert run.conversation.compactions.count() == 1
    assert script.asked[-1].estimated_input_tokens < script.asked[-2].estimated_input_tokens
    assert run.events.filter(kind="window").get().payload["tokens"] == 4_000


def test_prompt_that_stays_too_long_ends_the_run() -> None:
    run, script = make_run(make_agent()), Script(*[overflow(None)] * 4)
    for _ in range(5):
        go_on(run, script)

    assert (run.status, run.stop_reason) == ("failed", "context_overflow")
