"""The prompt files, and the data that is put into them.

A prompt file has a text and a version that changes with every word. Data is delimited, marked and bounded, so that a
model does not take it for instructions (reliability D6). The delimiter is derived from the data and SECRET_KEY: the
author of the data cannot guess it, and the same data gives the same prompt. Data is one JSON value a line, each line
with a mark: "spotlighting", Hines et al., arXiv 2403.14720.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.utils.crypto import salted_hmac

from memory.redaction.visible_text import show_hidden
from memory.retrieval.safe_text import ROLE_TOKEN

FOLDER = Path(__file__).parent
_HEADER = re.compile(r"---\nname: (?P<name>[a-z-]+)\nversion: (?P<version>\d+)\n---\n", re.ASCII)
_PLACE = re.compile(r"\{\{([a-z_]+)\}\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptFile:
    """One prompt: its name and version from the header, and its text with {{places}} to fill."""

    name: str
    version: int
    text: str

    def fill(self, **values: str) -> str:
        """Put values into the places, in one pass: what a value contains is never taken for a place."""
        return _PLACE.sub(lambda match: values[match[1]], self.text).strip()


@cache
def read_prompt(name: str) -> PromptFile:
    """Return a prompt file by its name; raise ValueError when its header does not fit."""
    raw = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    header = _HEADER.match(raw)
    if header is None or header["name"] != name:
        raise ValueError(f"The prompt file {name}.md must start with a header that gives its name and version.")
    return PromptFile(name=name, version=int(header["version"]), text=raw[header.end() :])


@cache
def prompt_version(name: str, *parts: str) -> str:
    """Return for example "reflect-failure/1@1f3a9c02": the hash covers the file and the parts it is sent with."""
    prompt = read_prompt(name)
    texts = [read_prompt(part).text for part in (name, *parts)]
    return f"{name}/{prompt.version}@{sha256(chr(0).join(texts).encode()).hexdigest()[:8]}"


@cache
def find_versions() -> dict[str, str]:
    """Return the version of every prompt file, by its name: of what reflects, ranks and consolidates."""
    return {name: prompt_version(name) for name in sorted(path.stem for path in FOLDER.glob("*.md"))}


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """The marks around data: the author of the data cannot guess them, and the same data gets the same marks."""

    boundary: str
    mark: str

    @classmethod
    def of(cls, data: object) -> "Frame":
        """Return the marks for data, which its `repr` tells from other data."""
        digest = salted_hmac("erl.reflection.boundary", repr(data), algorithm="sha256").hexdigest()
        return cls(boundary=digest[:16], mark=f"{digest[16:22]}|")

    def blocks(self, sections: Iterable[tuple[str, list[Any]]]) -> str:
        """Write sections as blocks that their content cannot close."""
        return "\n\n".join(
            "\n".join(
                [
                    f"BEGIN {self.boundary} {name}",
                    *(f"{self.mark} {self._line(value)}" for value in values),
                    f"END {self.boundary} {name}",
                ]
            )
            for name, values in sections
        )

    def _line(self, value: Any) -> str:
        return json.dumps(_neutral(value), ensure_ascii=False, separators=(",", ":")).replace(
            self.boundary, "[boundary]"
        )


def cut_middle(text: str, limit: int) -> str:
    """Return a text of about `limit` characters at most, its middle replaced by a marker that says how much is gone."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]} [… {len(text) - limit} characters cut …] {text[-tail:]}"


def _neutral(value: Any) -> Any:
    """Break up what a model reads as more than text, and show what a person would not see."""
    if isinstance(value, str):
        value = value.replace("\r\n", "\n")
        return ROLE_TOKEN.sub(lambda match: "‹" if match[0] == "<" else "⟦", show_hidden(value))
    if isinstance(value, list | tuple):
        return [_neutral(item) for item in value]
    if isinstance(value, dict):
        return {str(_neutral(name)): _neutral(item) for name, item in value.items()}
    return value
