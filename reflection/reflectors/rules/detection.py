"""What a detector hands over: one lesson in its normal wording, and how much it is worth against others."""

from dataclasses import dataclass

from memory.heuristics.text import Citation


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """A lesson one detector drew from one run.

    `trigger` and `guideline` hold the general words: tool, parameter and label names, never values of this run, so
    that the same lesson from another run has the same text. What happened in this run goes into `rationale`.
    `confidence` is 0–1 and also decides which of several findings of a run is proposed.
    """

    rule: str
    trigger: str
    guideline: str
    rationale: str
    polarity: str
    confidence: float
    citations: tuple[Citation, ...]
    avoid: str = ""
    not_when: str = ""
    tools: tuple[str, ...] = ()
    family_only: bool = False
