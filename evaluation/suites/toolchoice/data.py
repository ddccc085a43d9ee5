"""MetaTool's requests: which of 199 tools serves a request."""

import hashlib
import json
import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from memory.heuristics.text import HeuristicText

FOLDER = Path(__file__).resolve().parents[2] / "data" / "metatool"
BACKGROUND = Path(__file__).resolve().parents[2] / "data" / "lessons" / "reflexion.jsonl"
MAX_TRIGGER_CHARACTERS = 80  # taken from the start of a lesson that has no condition


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request and the one tool that serves it. The agent never sees `tool`."""

    id: str
    text: str
    tool: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolData:
    """`tools` maps names to descriptions. No request is in both `experience` and `tests`."""

    tools: dict[str, str]
    experience: tuple[Request, ...]
    tests: tuple[Request, ...]


@lru_cache(maxsize=1)
def load() -> ToolData:
    """Read the bundled data, keeping only requests with a single right tool."""
    tools = {row["_id"]: f"{row['title']}: {row['text']}" for row in _read(FOLDER / "corpus.jsonl")}
    rows = (FOLDER / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]
    # Ids that begin with "s-" are requests for one tool; the others need two.
    truth = {query: tool for query, tool, _ in (row.split("\t") for row in rows) if query.startswith("s-")}
    tests = tuple(
        Request(id=row["_id"], text=row["text"], tool=truth[row["_id"]])
        for row in _read(FOLDER / "queries.jsonl")
        if row["_id"] in truth
    )
    # By their text, so that no request is in both splits, whatever its id.
    asked = {request.text for request in tests}
    experience = tuple(
        Request(id=row["id"], text=row["request"], tool=row["tool"])
        for row in _read(FOLDER / "experience.jsonl")
        if row["request"] not in asked
    )
    return ToolData(tools=tools, experience=experience, tests=tests)


def sample(requests: tuple[Request, ...], limit: int | None) -> tuple[Request, ...]:
    """Return at most `limit` requests, tool by tool, so that even small samples of both splits share tools.

    Tools are ordered by a hash of their names, the same way for earlier and new requests.
    """
    if limit is None or limit >= len(requests):
        return requests
    chosen = sorted(requests, key=lambda request: hashlib.sha256(request.tool.encode()).digest())[:limit]
    kept = set(chosen)
    return tuple(request for request in requests if request in kept)


def shuffle(requests: tuple[Request, ...], *, seed: str) -> tuple[Request, ...]:
    """Return the requests in an order determined by the seed."""
    order = list(requests)
    random.Random(seed).shuffle(order)  # noqa: S311 - repeatable by design
    return tuple(order)


@lru_cache(maxsize=1)
def read_background() -> tuple[HeuristicText, ...]:
    """Return lessons that language models wrote about other work; their first words serve as the condition."""
    rows = [row["lesson"] for row in _read(BACKGROUND)]
    return tuple(
        HeuristicText(trigger=row[:MAX_TRIGGER_CHARACTERS].strip(), guideline=row, scope="project") for row in rows
    )


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
