"""The model's decisions, read strictly: what is not exactly the object asked for is unusable."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reflection.llm.base import closed_object
from reflection.reflectors.llm_answer import UnusableAnswer, describe, read_object

MAX_DECISIONS = 60
_LABEL = re.compile(r"\b[GL]\d{1,3}\b")
CHOICES = ("new", "merge", "generalise", "contradiction", "narrow", "retire", "keep")


class ModelDecision(BaseModel):
    """One thing the model proposes to do."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    decision: Literal["new", "merge", "generalise", "contradiction", "narrow", "retire", "keep"]
    labels: tuple[str, ...] = Field(min_length=1, max_length=30, strict=False)
    keep: str = Field(default="", max_length=10)
    trigger: str = Field(default="", max_length=4000)
    action: str = Field(default="", max_length=4000)
    avoid: str = Field(default="", max_length=2000)
    not_when: str = Field(default="", max_length=2000)
    polarity: Literal["works", "avoid", "mixed"] = "mixed"
    reason: str = Field(default="", max_length=2000)
    confidence: float = Field(default=0.0, ge=0.0, le=1.0)


class _Decisions(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    decisions: list[ModelDecision] = Field(max_length=MAX_DECISIONS)


def parse_decisions(
    text: str, *, finish_reason: str, labels: frozenset[str], choices: tuple[str, ...]
) -> list[ModelDecision]:
    """Return the decisions of an answer; raise `UnusableAnswer` where it is not what was asked for."""
    document = read_object(text, finish_reason=finish_reason)
    try:
        decisions = _Decisions.model_validate(document).decisions
    except ValidationError as error:
        raise UnusableAnswer(describe(error), code="wrong_shape") from error
    for decision in decisions:
        if decision.decision not in choices:
            raise UnusableAnswer(f"{decision.decision} is not one of {', '.join(choices)}.", code="wrong_shape")
        if not labels.issuperset(decision.labels) or (decision.keep and decision.keep not in decision.labels):
            raise UnusableAnswer("A label is none of those that were shown.", code="no_such_label")
        if decision.decision in ("new", "narrow") and not (decision.trigger.strip() and decision.action.strip()):
            raise UnusableAnswer("A new or narrower lesson needs a trigger and an action.", code="wrong_shape")
    return decisions


def decisions_schema(choices: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON schema of the answer, in the subset that providers take."""
    text = {"type": "string"}
    properties: dict[str, Any] = {
        "decision": {"type": "string", "enum": list(choices)},
        "labels": {"type": "array", "items": text},
        "keep": text,
        "trigger": text,
        "action": text,
        "avoid": text,
        "not_when": text,
        "polarity": {"type": "string", "enum": ["works", "avoid", "mixed"]},
        "reason": text,
        "confidence": {"type": "number"},
    }
    decision = closed_object(properties)
    return closed_object({"decisions": {"type": "array", "items": decision}})


def with_names(decision: ModelDecision, names: Mapping[str, str]) -> ModelDecision:
    """Write names in place of labels into a reason: a reviewer does not see the labels of a question."""
    reason = _LABEL.sub(lambda match: names.get(match[0], match[0]), decision.reason)
    return decision.model_copy(update={"reason": reason[:1].upper() + reason[1:]})
