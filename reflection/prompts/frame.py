"""Data in a prompt: delimited, marked and bounded, so that a model does not take it for instructions (reliability D6).

The delimiter is derived from the data and SECRET_KEY: the author of the data cannot guess it, and the same data gives
the same prompt. Data is one JSON value a line, each line with a mark: "spotlighting", Hines et al., arXiv 2403.14720.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.crypto import salted_hmac

from memory.redaction.visible_text import show_hidden
from memory.retrieval.safe_text import ROLE_TOKEN


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
        return json.dumps(_neutral(value), ensure_ascii=False).replace(self.boundary, "[boundary]")


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
