"""What a stage of a consolidation has found, before it is written."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from memory.heuristics.text import Citation, HeuristicText

WHOLE_RUN = Citation()


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """A run that supports a draft, and where in it."""

    trajectory_id: UUID
    citation: Citation = WHOLE_RUN


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """What drafted it."""

    method: str = "rules"
    version: str = ""
    model: str = ""
    prompt_version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewLesson:
    """A lesson for the review queue; where one already says it, it becomes support for that one."""

    text: HeuristicText
    support: tuple[Support, ...]
    reason: str
    confidence: float
    author: Author
    findings: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """A change to an existing lesson: a row of Suggestion.

    `occasion` tells one occasion of the same advice from the next, so that a person who said no is asked again only
    when there is much more evidence.
    """

    kind: str
    heuristic_id: UUID
    content_sha256: str
    reason: str
    author: Author
    other_id: UUID | None = None
    other_sha256: str = ""
    text: HeuristicText | None = None
    similarity: float | None = None
    support: tuple[Support, ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
    tokens_saved: int = 0
    occasion: str = ""

    @property
    def fingerprint(self) -> str:
        """The hash of what it says, without reason and author. A pair is the same in either order."""
        pair = sorted([(str(self.heuristic_id), self.content_sha256), (str(self.other_id), self.other_sha256)])
        parts = [self.kind, pair, self.text.guideline if self.text else "", self.occasion]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


Draft = NewLesson | Advice
