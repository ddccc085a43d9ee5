"""The agent picks the tool whose description is most similar to a request, and follows the lessons in its prompt.

It is a fixed rule without parameters, so only the lessons can change its choices. A lesson about a request with
similarity s raises the score of its tool to at least s and lowers the score of tools to avoid to at most 1 - s.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from evaluation.suites.vector_cache import CachedVectors
from memory.embeddings.base import Vectors
from memory.embeddings.minilm import FloatMiniLM

TRIGGER = "the request is like this: "
USE = "Use the tool "
AVOID = "the tool "
BETWEEN = ", the tool "
NONE = "Ask for another tool than the ones to avoid."

ACCEPTED, REJECTED = "accepted", "rejected"

_LINE = re.compile(
    rf"^\[H-[0-9a-f]{{8}}\] When {re.escape(TRIGGER)}(?P<request>.*?): "
    rf"(?:{re.escape(USE)}(?P<use>\S+)\.|{re.escape(NONE)})"
    r"(?: \((?:avoid: (?P<avoid>.*?))?(?:; )?(?:not when: .*)?\))?$"
)

_RUN = re.compile(r"^\[R-[0-9a-f]{8}\] (?P<request>.*?) ⇒ (?P<tries>choose_tool.*)$")
_TRY = re.compile(rf'choose_tool\(\{{"tool": "([^"]+)"\}}\) → ({ACCEPTED}|{REJECTED})')


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAdvice:
    """A lesson as the agent understands it."""

    request: str
    use: str
    avoid: tuple[str, ...]


def read_lessons(context: str) -> list[ToolAdvice]:
    """Return the advice of each lesson or earlier run in the block; lines without tools are skipped."""
    read = (_read_line(line.partition(" ")[2]) for line in context.splitlines())
    return [advice for advice in read if advice is not None]


@lru_cache(maxsize=10_000)
def _read_line(line: str) -> ToolAdvice | None:
    if match := _RUN.match(line):
        tries = dict(_TRY.findall(match["tries"]))
        use = next((tool for tool, verdict in tries.items() if verdict == ACCEPTED), "")
        avoid = tuple(tool for tool, verdict in tries.items() if verdict == REJECTED)
        return ToolAdvice(request=match["request"], use=use, avoid=avoid)
    if match := _LINE.match(line):
        avoided = (match["avoid"] or "").removeprefix(AVOID)
        names = tuple(name for name in avoided.split(BETWEEN) if name)
        return ToolAdvice(request=match["request"], use=match["use"] or "", avoid=names)
    return None


class ToolAgent:
    """Ranks the tools for a request. `tools` maps names to descriptions; the right answer is not among its inputs.

    `embed` returns a text's vector of unit length.
    """

    def __init__(self, embed: Callable[[str], Vectors], tools: dict[str, str]) -> None:
        self.tools = list(tools)
        self._embed = embed
        self._positions = {name: position for position, name in enumerate(self.tools)}
        self._vectors: Vectors = np.stack([embed(text) for text in tools.values()])

    def choose(self, request: str, *, context: str = "", tries: int = 1) -> list[str]:
        """Return the tools to try, best first."""
        vector = self._embed(request)
        scores = self._vectors @ vector
        lessons = [(advice, float(self._embed(advice.request) @ vector)) for advice in read_lessons(context)]
        for advice, similarity in lessons:
            for name in advice.avoid:
                if (position := self._positions.get(name)) is not None:
                    # Lowered first and raised below, so that advice to use a tool wins over advice to avoid it.
                    scores[position] = min(scores[position], 1 - similarity)
        for advice, similarity in lessons:
            if (position := self._positions.get(advice.use)) is not None:
                scores[position] = max(scores[position], similarity)
        # Stable, so that equal scores give the same order on every machine.
        best = np.argsort(-scores, kind="stable")[:tries]
        return [self.tools[position] for position in best]


class _PlainMiniLM(FloatMiniLM):
    """all-MiniLM-L6-v2 as published, whatever embedder the product uses.

    The agent is the yardstick. With the product's own embedder, which gives common words less weight, it would choose
    better without any lesson, and every change to that embedder would move the arm that all others are compared with.
    """

    model_id = "all-minilm-l6-v2-int8-plain"

    def warm_up(self) -> None:
        """Load the model and give every word the same weight."""
        loaded = self._load()
        self._loaded = replace(loaded, weights=np.ones_like(loaded.weights))


class AgentVectors:
    """The agent's own vectors, each computed once."""

    def __init__(self) -> None:
        model = _PlainMiniLM()
        model.warm_up()
        self._vectors = CachedVectors(model)

    def __call__(self, text: str) -> Vectors:
        vector: Vectors = self._vectors([text])[0]
        return vector

    def prefetch(self, texts: Iterable[str]) -> None:
        """Compute vectors that will be needed soon."""
        with self._vectors.in_batches():
            self._vectors(list(texts))
