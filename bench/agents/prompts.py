"""Whether the prompt of every step can be built again, to the byte, from the rows.

The server on loopback keeps what it receives. When all runs have ended, the prompt of each step is built from the
rows, and what was received is written in the same form by code of its own.
"""

import hashlib
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from bench.agents.loopback import Call, Loopback, Said
from bench.agents.product import Product, http_tool

WINDOW = 3_000  # small enough for results to be left out and summaries to be written
RUNS_TOGETHER = 8  # in one conversation
WORDS = [
    "order",
    "café",
    "订单",
    "😀",
    "\\",
    '"',
    "{",
    "[Result 3]",
    "<memory>",
    "e\u0301",
    "$1,000.00",
    "\u2028",
    "\t",
    "end",
]
LOOK_UP = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["key"],
    "additionalProperties": False,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """A run, and what the model's server received at each of its steps."""

    run: str
    received: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """How many steps there were, and which of them are not as they were received."""

    steps: int
    differ: tuple[str, ...] = field(default=())


class Whimsical:
    """A model whose answers are drawn by what it reads: several calls, some of them wrong, and texts of all kinds."""

    def answer(self, request: dict[str, Any]) -> Said:
        # From what it reads: the same request has the same answer, also after a worker was killed.
        digest = hashlib.sha256(json.dumps(request["messages"]).encode()).hexdigest()
        chance = random.Random(digest)
        if chance.random() < 0.35:
            return Said(text=write_words(chance, 12))
        calls = tuple(self._draw(chance, f"{digest[:8]}-{index}") for index in range(chance.randint(1, 3)))
        return Said(text=write_words(chance, 4) if chance.random() < 0.3 else "", calls=calls)

    def _draw(self, chance: random.Random, id: str) -> Call:
        text = write_words(chance, 6)
        choices: list[tuple[str, dict[str, Any] | str]] = [
            ("look_up", {"key": text, "size": chance.randint(0, 3_000)}),
            ("look_up", {"key": text, "size": chance.randint(0, 300)}),
            ("look_up", {"kye": text}),
            ("look_up", '{"key": "cut of'),
            ("look_up", '{ "key" :  "spaced",\n "size": 1e1 }'),
            ("look_up", ""),
            ("send_message", {"message": text}),
            ("conversation_search", {"query": "order"}),
            ("no_such_tool", {"key": text}),
        ]
        name, arguments = chance.choice(choices)
        # Some servers send no ids.
        return Call(id="" if chance.random() < 0.1 else id, name=name, arguments=arguments)


def write_words(chance: random.Random, most: int) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, most)))


def look_up(_: str, arguments: dict[str, Any]) -> Any:
    """Answer the tool: as much text as was asked for."""
    chance = random.Random(arguments["key"])
    text = write_words(chance, 5) * (1 + int(arguments.get("size", 0)) // 20)
    return {"found": text[: int(arguments.get("size", 0))]} if chance.random() < 0.5 else text


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversations:
    """Conversations with one agent, one after the other. The model's name tells what was received for it."""

    name: str
    loopback: Loopback
    product: Product

    def hold(self, runs: int) -> list[Taken]:
        """Let the agent run so often."""
        self.loopback.policies[self.name] = Whimsical()
        self.loopback.services[self.name] = look_up
        url = f"{self.loopback.url}/services/{self.name}/look_up"
        self.product.store_tool(http_tool("look_up", url, description="Look something up. 😀", parameters=LOOK_UP))
        agent = self.product.ask(
            "POST",
            "/agents",
            {
                "name": "whimsical",
                "model": self.name,
                "system": write_words(random.Random(self.name), 40),
                "tools": ["look_up", "send_message", "conversation_search", "read_result"],
                "window_tokens": WINDOW,
                "max_output_tokens": 300,
                "compaction": {"keep_results": 3, "summarise": "extract"},
                "limits": {"max_steps": 8},
            },
        )
        chance, taken, conversation = random.Random(f"said to {self.name}"), [], None
        received = self.loopback.received[self.name]
        for number in range(runs):
            before = len(received)
            conversation = conversation if number % RUNS_TOGETHER else None
            run = self.product.say(agent["id"], f"{number} {write_words(chance, 20)}", conversation=conversation)
            conversation = run["conversation"]
            taken.append(Taken(run=run["id"], received=tuple(received[before:])))
        return taken


def hold_all(places: list[Conversations], runs: int) -> list[Taken]:
    """Let the agents run so often together."""

    def work(place: Conversations) -> list[Taken]:
        try:
            return place.hold(runs // len(places))
        finally:
            # Each thread has a connection of its own, and nothing else closes it.
            connection.close()

    with ThreadPoolExecutor(len(places)) as pool:
        return [record for taken in pool.map(work, places) for record in taken]


def compare_all(taken: list[Taken]) -> Compared:
    """Build the prompt of every step again."""
    steps, differ = 0, []
    for record in taken:
        for number, prompt in enumerate(_rebuild_prompts(record.run), start=1):
            steps += 1
            received = record.received[number - 1] if number <= len(record.received) else b""
            if not received or write_received(received) != _without_received(prompt):
                differ.append(f"run {record.run}, step {number}")
        if number != len(record.received):
            differ.append(f"run {record.run}: {len(record.received)} requests for {number} steps")
    return Compared(steps=steps, differ=tuple(differ))


def _rebuild_prompts(run: str) -> Iterator[bytes]:
    """Return the prompt of each step, from the rows; nothing where its hash is not the one that was stored."""
    # Django has to be set up before this import.
    from runtime.context.prompt import hash_prompt, rebuild_request, write_prompt
    from runtime.models.runs import Step

    for step in Step.objects.select_related("run__revision", "compaction").filter(run_id=run).order_by("seq"):
        request = rebuild_request(step)
        yield write_prompt(request) if hash_prompt(request) == step.prompt_sha256 else b""


def _without_received(prompt: bytes) -> bytes:
    """Leave out what only the provider of an answer can read: this server is sent the words and the calls."""
    body = json.loads(prompt or b'{"messages": []}')
    for message in body["messages"]:
        message.pop("received", None)
    return json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def write_received(data: bytes) -> bytes:
    """Write a request as the server received it in the form in which the command prints prompts."""
    body = json.loads(data)
    messages = []
    for message in body["messages"]:
        calls = [{"id": call["id"], **call["function"]} for call in message.pop("tool_calls", ())]
        messages.append(message | {"content": message["content"] or ""} | ({"tool_calls": calls} if calls else {}))
    form = {
        "messages": messages,
        "tools": [tool["function"] for tool in body.get("tools", ())],
        "max_output_tokens": body["max_tokens"],
        "temperature": body.get("temperature"),
        "tool_choice": body.get("tool_choice", "auto"),
    }
    return json.dumps(form, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
