"""One module per kind of lesson, each with `find(run) -> list[RuleMatch]`, independent of the others."""

from dataclasses import dataclass

from memory.heuristics.text import Citation


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleMatch:
    """A lesson that a detector found in a run.

    `trigger` and `guideline` name tools, parameters and labels but no values of this run, so that the same lesson from
    another run has the same text. What happened in this run goes into `rationale`. `confidence` is between 0 and 1 and
    also decides which matches of a run are proposed.
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
