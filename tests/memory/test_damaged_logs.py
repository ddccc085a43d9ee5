"""Logs that lost lines, have some twice, were cut, or hold what no reader knows: the rest always comes in."""

import json
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memory.transcripts.loading import read_log
from memory.transcripts.log import Transcript, UnreadableTranscript
from tests.real_runs import EXCERPTS

PROGRAMS = EXCERPTS / "programs"
LINES = sorted(path for path in PROGRAMS.rglob("*.jsonl") if path.name != "samples.jsonl")
LINES += [EXCERPTS / "transcripts" / name for name in ("claude_code_session.jsonl", "codex_rollout.jsonl")]
# Documents, with the path to the list that holds the session
DOCUMENTS = {
    "atif/tool-calls/input.json": ("steps",),
    "gemini-cli/tool-calls/input.json": ("messages",),
    "hermes/tool-calls/input.json": ("messages",),
    "hermes/flat.json": ("messages",),
    "hermes/rows.json": (),
    "inspect/log.json": ("samples", 0, "messages"),
    "opencode/tool-calls/input.json": ("messages",),
    "opencode/reverted.json": ("messages",),
    "openhands/tool-calls/input.json": (),
    "openhands/before_1_0.json": (),
    "tau2/simulation.json": ("messages",),
}
UNKNOWN: list[Any] = [
    {"type": "brand-new", "data": {"x": [1]}},
    {"type": 5, "message": 7, "payload": [], "role": {}, "kind": None},
    {"type": "message", "message": {"role": "assistant", "content": [7, None, {"type": "new"}]}},
    [],
    7,
    None,
    "text",
    {},
]
Damage = Callable[[list[Any], random.Random], list[Any]]


def drop(items: list[Any], dice: random.Random) -> list[Any]:
    at = dice.randrange(len(items))
    return [*items[:at], *items[at + 1 :]]


def double(items: list[Any], dice: random.Random) -> list[Any]:
    at = dice.randrange(len(items))
    return [*items[: at + 1], *items[at:]]


def reorder(items: list[Any], dice: random.Random) -> list[Any]:
    return dice.sample(items, len(items))


def insert(items: list[Any], dice: random.Random) -> list[Any]:
    at = dice.randrange(len(items) + 1)
    return [*items[:at], dice.choice(UNKNOWN), *items[at:]]


def damage_members(items: list[Any], dice: random.Random) -> list[Any]:
    """Put something else in place of a member somewhere in an item."""
    at = dice.randrange(len(items))
    changed = json.loads(json.dumps(items[at]))
    node = changed
    while isinstance(node, dict | list) and node:
        name = dice.choice(list(node)) if isinstance(node, dict) else dice.randrange(len(node))
        if not isinstance(node[name], dict | list) or dice.random() < 0.4:
            node[name] = json.loads(json.dumps(dice.choice(UNKNOWN)))
            break
        node = node[name]
    return [*items[:at], changed, *items[at + 1 :]]


def calls_of(runs: list[Transcript]) -> list[str]:
    calls = [step["action"] for run in runs for step in run.steps if step["action"]]
    return sorted(json.dumps([call["name"], call["arguments"]]) for call in calls if call["name"] != "respond")


def texts_of(value: Any) -> set[str]:
    """Return the texts in a value, also those of arguments that are written as text."""
    if isinstance(value, str):
        inner = json.loads(value) if value.startswith(("{", "[{")) else []
        return {value, *texts_of(inner)}
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return {text for part in parts for text in texts_of(part)}


def read_lines(items: list[Any]) -> list[Transcript]:
    return read_log("\n".join(json.dumps(item) for item in items).encode()).transcripts


def read_or_refuse(read: Any, items: list[Any]) -> None:
    """Read a log of which nothing may be left: then the refusal names the program."""
    with suppress(UnreadableTranscript):
        read(items)


def read_document(document: Any, path: tuple[Any, ...], items: list[Any]) -> list[Transcript]:
    changed = json.loads(json.dumps({"log": document}))
    holder, last = changed, "log"
    for name in path:
        holder, last = holder[last], name
    holder[last] = items
    return read_log(json.dumps(changed["log"]).encode()).transcripts


def samples() -> list[Any]:
    found: list[Any] = []
    for file in LINES:
        items = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        found.append(pytest.param(items, read_lines, id=f"{file.parent.parent.name}/{file.parent.name}/{file.name}"))
    for name, path in DOCUMENTS.items():
        document = json.loads((PROGRAMS / name).read_text(encoding="utf-8"))
        items = document
        for step in path:
            items = items[step]
        found.append(pytest.param(items, lambda items, d=document, p=path: read_document(d, p, items), id=name))
    return found


@pytest.mark.parametrize("damage", [double, insert])
@pytest.mark.parametrize(("items", "read"), samples())
def test_every_call_comes_in_beside_what_is_doubled_or_unknown(items: list[Any], read: Any, damage: Damage) -> None:
    whole = calls_of(read(items))

    for seed in range(40):
        kept = calls_of(read(damage(items, random.Random(seed))))
        assert not [call for call in set(whole) if kept.count(call) < whole.count(call)], seed


# Codex says how many turns were taken back, not which: without the prompt of one the turn before it goes.
@pytest.mark.parametrize(("items", "read"), [each for each in samples() if "rolled_back" not in str(each.id)])
def test_only_the_calls_of_a_dropped_item_are_lost(items: list[Any], read: Any) -> None:
    whole = calls_of(read(items))

    for at in range(len(items)):
        kept, gone = calls_of(read([*items[:at], *items[at + 1 :]])), json.dumps(items[at])
        lost = [call for call in set(whole) if kept.count(call) < whole.count(call)]
        assert not [call for call in lost if not texts_of(json.loads(call)[1]) & texts_of(items[at])], gone


@pytest.mark.parametrize("damage", [reorder, damage_members])
@pytest.mark.parametrize(("items", "read"), samples())
def test_nothing_that_damage_does_is_an_exception(items: list[Any], read: Any, damage: Damage) -> None:
    for seed in range(60):
        read_or_refuse(read, damage(items, random.Random(seed)))


@pytest.mark.parametrize("file", LINES, ids=str)
def test_session_is_read_up_to_where_it_was_cut(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    before = calls_of(read_log(b"".join(lines[:-1])).transcripts)

    cut = read_log(b"".join([b"not-json\n", *lines[:-1], lines[-1][: len(lines[-1]) // 2]]))

    assert calls_of(cut.transcripts) == before
    assert [left for left in cut.transcripts[0].left_out if left.startswith("line 1: This is not JSON")]


@pytest.mark.parametrize(("items", "read"), samples())
def test_work_of_a_reader_grows_with_the_log_alone(items: list[Any], read: Any) -> None:
    """Counts the calls of functions: time on a busy machine says nothing."""

    def work(copies: int) -> int:
        many = [json.loads(json.dumps(item).replace('id": "', f'id": "{n}-')) for n in range(copies) for item in items]
        count = 0

        def note(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            read(many)
        finally:
            sys.setprofile(None)
        return count

    assert work(40) < 2.6 * work(20)
