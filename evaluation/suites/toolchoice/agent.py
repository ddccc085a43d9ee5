"""The agent: picks the tool whose description is likest to a request, and heeds the lessons in its prompt.

It is a fixed rule without parameters, so that what changes its choices is the lessons and nothing else. A lesson
about a request of likeness s raises its tool to s, if that is higher, and lowers what it says to avoid to 1 - s.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from memory.embeddings.base import Vectors

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
class ReadLesson:
    """A lesson as the agent reads it in the block."""

    request: str
    use: str
    avoid: tuple[str, ...]


def read_lessons(context: str) -> list[ReadLesson]:
    """Return what the block says, lesson by lesson or run by run, and nothing of lines without tools."""
    read = (_read_line(line.partition(" ")[2]) for line in context.splitlines())
    return [lesson for lesson in read if lesson is not None]


@lru_cache(maxsize=10_000)
def _read_line(line: str) -> ReadLesson | None:
    if match := _RUN.match(line):
        tries = dict(_TRY.findall(match["tries"]))
        use = next((tool for tool, heard in tries.items() if heard == ACCEPTED), "")
        avoid = tuple(tool for tool, heard in tries.items() if heard == REJECTED)
        return ReadLesson(request=match["request"], use=use, avoid=avoid)
    if match := _LINE.match(line):
        avoided = (match["avoid"] or "").removeprefix(AVOID)
        names = tuple(name for name in avoided.split(BETWEEN) if name)
        return ReadLesson(request=match["request"], use=match["use"] or "", avoid=names)
    return None


class ToolAgent:
    """Ranks the tools for a request. `tools` maps names to descriptions; it never sees which one is right.

    `listen` gives a text's vector of unit length.
    """

    def __init__(self, listen: Callable[[str], Vectors], tools: dict[str, str]) -> None:
        self._listen = listen
        self._names = list(tools)
        self._places = {name: place for place, name in enumerate(self._names)}
        self._tools: Vectors = np.stack([listen(text) for text in tools.values()])

    def choose(self, request: str, *, context: str = "", tries: int = 1) -> list[str]:
        """Return the tools to try, best first."""
        vector = self._listen(request)
        scores = self._tools @ vector
        lessons = [(lesson, self._likeness(lesson, vector)) for lesson in read_lessons(context)]
        for lesson, likeness in lessons:
            for name in lesson.avoid:
                if (place := self._places.get(name)) is not None:
                    scores[place] = min(scores[place], 1 - likeness)
        for lesson, likeness in lessons:
            if (place := self._places.get(lesson.use)) is not None:
                scores[place] = max(scores[place], likeness)
        best = np.argsort(-scores, kind="stable")[:tries]
        return [self._names[place] for place in best]

    def _likeness(self, lesson: ReadLesson, vector: Vectors) -> float:
        return float(self._listen(lesson.request) @ vector)
