"""Dialogues of the Berkeley Function Calling Leaderboard (multi-turn), held through ERL's API.

The model is a plan: it makes the calls of the leaderboard's own answers, one in each step. The simulated services are
HTTP tools of the agent, and their state is compared with the leaderboard's checker after each turn of the dialogue.
"""

import importlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from django.db import connection
from tqdm import tqdm

from bench.agents.loopback import Call, Loopback, Said
from bench.agents.product import Product, http_tool
from evaluation.environments.bfcl import Apis, Dialogue
from evaluation.environments.bfcl_tools import read_tools
from evaluation.environments.scripted.plan import PlannedCall, ScriptedAnswer
from runtime.models.conversations import Compaction

WIDE = 1_000_000  # a window in which everything stays as it is
NARROW = 8_192
ANSWER_TOKENS = 512
MIN_CHARACTERS = 4  # of a value that has to be before the model's eyes
PIECE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """How one dialogue went. `ends_right`: the services end in the right state, whatever was answered."""

    id: str
    turns: int
    right_turns: int
    ends_right: bool
    steps: int
    read_again: int
    tokens: int
    largest: int
    masks: int
    summaries: int
    why: str = ""


@dataclass(kw_only=True)
class Place:
    """Where one dialogue is held at a time: a project with every tool, the services that stand behind, and the model.

    What the model answers depends on the last message and on the turn of the dialogue. A value that only an earlier
    result holds must be before its eyes: where it is not, the model reads that part of the result again, and where that
    does not help, it gives up.
    """

    name: str
    loopback: Loopback
    product: Product
    dialogue: Dialogue | None = None
    apis: Apis | None = None
    turn: int = 0
    values: list[Any] = field(default_factory=list)  # of this turn
    results: dict[str, str] = field(default_factory=dict)  # of the dialogue, by the id of the call
    read_again: int = 0

    def prepare(self, classes: Collection[str] = ()) -> None:
        """Store the tools of these classes, or of all."""
        self.loopback.services[self.name] = self.serve
        for tool, (description, parameters) in read_tools().items():
            if classes and tool.partition("_")[0] not in classes:
                continue
            url = f"{self.loopback.url}/services/{self.name}/{tool}"
            self.product.store_tool(http_tool(tool, url, description=description, parameters=parameters))

    def serve(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Answer a call of a tool."""
        assert self.apis is not None
        answer = self.apis.call(tool.partition("_")[2], arguments)
        self.values.append(answer.value)
        value = _readable(answer)
        self.results[f"call-{self.turn}-{len(self.values)}"] = _write(value)
        return value

    def answer(self, request: dict[str, Any]) -> Said:
        """Answer as the model."""
        assert self.dialogue is not None
        calls = [call for call in self.dialogue.plan if call.turn == self.turn]
        last = request["messages"][-1]
        id = last["tool_call_id"] if last["role"] == "tool" else f"call-{self.turn}-0"
        done = int(id.split("-")[2])
        if done == len(calls):
            return Said(text="Done.")
        wanted = calls[done]
        for piece in _pieces(wanted.arguments):
            if source := self._find_source(piece, request):
                reading = f"call-{self.turn}-{done}-{source['start']}"
                # It was read already and the value is still not there: reading again would never end.
                if id == reading:
                    return Said(text=f"I cannot find {piece}.")
                self.read_again += 1
                return Said(calls=(Call(id=reading, name="read_result", arguments=source),))
        tool = _tool_of(self.dialogue, wanted)
        return Said(calls=(Call(id=f"call-{self.turn}-{done + 1}", name=tool, arguments=dict(wanted.arguments)),))

    def _find_source(self, value: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return what to read again where a value stood in a result and stands nowhere in the prompt."""
        shown = {message.get("tool_call_id", ""): message["content"] for message in request["messages"]}
        if any(value in (message["content"] or "") for message in request["messages"]):
            return {}
        for id, text in reversed(self.results.items()):
            if value in text:
                number = re.search(r"[Rr]esult (\d+)", shown.get(id, ""))
                # A little before it, so that the model also sees what the value belongs to.
                start = max(text.index(value) - 200, 0)
                return {"result": int(number[1]) if number else 0, "start": start, "count": 3_000}
        # The model knows it from elsewhere.
        return {}

    def hold(self, dialogue: Dialogue, *, window: int) -> Held:
        """Hold a dialogue and compare the states after each turn."""
        checker = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
        self.dialogue, self.apis, right = dialogue, Apis(dialogue), Apis(dialogue)
        self.results, self.read_again = {}, 0
        self.loopback.policies[f"{self.name}/{dialogue.id}"] = self
        agent = self.product.ask(
            "POST",
            "/agents",
            {
                "name": f"{dialogue.id}-{window}",
                "model": f"{self.name}/{dialogue.id}",
                "system": "You do what the user asks for with the tools that you have.",
                "tools": [*_tools_of(dialogue), "read_result"],
                "window_tokens": window,
                "max_output_tokens": ANSWER_TOKENS,
            },
        )
        conversation, runs, right_turns, why = None, [], 0, ""
        for self.turn, request in enumerate(dialogue.requests):
            self.values = []
            run = self.product.say(agent["id"], request, conversation=conversation)
            runs.append(run)
            conversation = run["conversation"]
            planned = [call for call in dialogue.plan if call.turn == self.turn]
            expected = [right.call(call.name, call.arguments).value for call in planned]
            if run["status"] != "succeeded":
                why = f"{run['status']}: {run['stop_reason']} {run['error']}"
                break
            states = checker.state_checker(self.apis.instances, right.instances)
            answers = checker.response_checker(self.values, expected, self.turn)
            if not (states["valid"] and answers["valid"]):
                why = str((answers if states["valid"] else states)["error_message"])[:300]
                break
            right_turns += 1
        is_whole = len(runs) == len(dialogue.requests) and runs[-1]["status"] == "succeeded"
        steps = [step for run in runs for step in self.product.list_all(f"/runs/{run['id']}/steps")]
        compactions = Compaction.objects.filter(conversation_id=runs[-1]["conversation"])
        methods = [*compactions.values_list("method", flat=True)]
        prompts = [step["prompt_tokens"] for step in steps]
        return Held(
            id=dialogue.id,
            turns=len(dialogue.requests),
            right_turns=right_turns,
            ends_right=is_whole and checker.state_checker(self.apis.instances, right.instances)["valid"],
            steps=len(steps),
            read_again=self.read_again,
            tokens=sum(prompts),
            largest=max(prompts),
            masks=methods.count("mask"),
            summaries=len(methods) - methods.count("mask"),
            why=why,
        )


def hold_all(places: Sequence[Place], dialogues: Sequence[Dialogue], *, window: int) -> list[Held]:
    """Hold dialogues, as many at a time as there are places."""
    waiting = iter(tqdm(dialogues, desc=f"window {window:,}", leave=False))
    taking = Lock()

    def take() -> Dialogue | None:
        # A generator must not be advanced by two threads at once.
        with taking:
            return next(waiting, None)

    def work(place: Place) -> list[Held]:
        try:
            return [place.hold(dialogue, window=window) for dialogue in iter(take, None)]
        finally:
            connection.close()

    with ThreadPoolExecutor(len(places)) as pool:
        return [result for held in pool.map(work, places) for result in held]


def report(held: Sequence[Held], *, name: str, window: int) -> str:
    """Return a line about dialogues, after one about each that went wrong."""
    wrong = [f"wrong: {row.id} after {row.right_turns} of {row.turns} turns. {row.why}" for row in held if row.why]
    right, tokens = len(held) - len(wrong), sum(row.tokens for row in held)
    line = (
        f"{name:12} window {window:>9,}  ends right {sum(row.ends_right for row in held)}/{len(held)}, every turn "
        f"right {right}/{len(held)}  turns {sum(row.turns for row in held)}  steps "
        f"{sum(row.steps for row in held)}  prompt tokens {tokens:,} (largest {max(row.largest for row in held):,})  "
        f"results left out in {sum(row.masks > 0 for row in held)}, summaries in "
        f"{sum(row.summaries > 0 for row in held)}, read again {sum(row.read_again for row in held)}"
    )
    return "\n".join([*wrong, line])


def _tools_of(dialogue: Dialogue) -> list[str]:
    return [name for name in read_tools() if name.partition("_")[0] in dialogue.classes]


def _tool_of(dialogue: Dialogue, call: PlannedCall) -> str:
    return next(name for name in _tools_of(dialogue) if name.partition("_")[2] == call.name)


def _readable(answer: ScriptedAnswer) -> Any:
    try:
        return json.loads(answer.text)
    except ValueError:
        return answer.text


def _pieces(value: Any) -> Iterator[str]:
    """Return the texts and larger numbers in arguments as they stand in JSON, long texts piece by piece."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _pieces(item)
    elif (isinstance(value, str) and len(value) >= MIN_CHARACTERS) or (
        isinstance(value, int | float) and len(str(value)) >= MIN_CHARACTERS
    ):
        text = json.dumps(value, ensure_ascii=False).strip('"')
        for start in range(0, len(text), PIECE):
            yield text[start : start + PIECE]


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
