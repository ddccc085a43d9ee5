"""The model's answer, read strictly: what is not exactly the object asked for is unusable, with the reason.

The object is that of the method's reflection prompt (reference: ERL c.3 point 5). Only a code fence around it is
forgiven.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from memory.limits import JsonLimits
from memory.strict_json import InvalidJson, parse_json
from reflection.errors import ReflectionError
from reflection.llm.base import closed_object, strip_fence

LIMITS = JsonLimits(depth_levels=6, values=2_000, text_chars=8_192)
MAX_STEP = 1_000_000


class UnusableAnswer(ReflectionError):
    """The model answered something that cannot be read as lessons.

    Not transient: the answers are stored, so the same question would find the same answers again.
    """

    def __init__(self, reason: str, *, code: str = "unusable_answer") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class LessonAnswer(BaseModel):
    """One lesson as the model writes it, or its word that there is none."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    learn: bool
    skip_reason: str = Field(default="", max_length=2000)
    title: str = Field(default="", max_length=300)
    analysis: str = Field(default="", max_length=4000)
    trigger: str = Field(default="", max_length=4000)
    action: str = Field(default="", max_length=4000)
    avoid: str = Field(default="", max_length=2000)
    not_when: str = Field(default="", max_length=2000)
    polarity: Literal["success", "failure", "mixed"] = "mixed"
    task_type: str = Field(default="", max_length=100)
    tools: tuple[str, ...] = Field(default=(), max_length=30, strict=False)
    evidence_steps: tuple[int, ...] = Field(default=(), max_length=100, strict=False)
    confidence: float = Field(default=0.0, ge=0.0, le=1.0)
    covers_existing: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.learn and not self.covers_existing and not (self.trigger.strip() and self.action.strip()):
            raise ValueError("a lesson needs a trigger and an action")
        return self


class _LessonsAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    lessons: list[LessonAnswer]


def parse_answer(
    text: str, *, finish_reason: str, max_lessons: int, labels: tuple[str, ...] = ()
) -> tuple[LessonAnswer, ...]:
    """Return the lessons of an answer, at most `max_lessons`; raise `UnusableAnswer` with a reason for the model.

    `labels` are the existing heuristics that a lesson may say it repeats.
    """
    document = read_object(text, finish_reason=finish_reason)
    try:
        if max_lessons == 1:
            answers = [LessonAnswer.model_validate(document)]
        else:
            answers = _LessonsAnswer.model_validate(document).lessons
    except ValidationError as error:
        raise UnusableAnswer(describe(error), code="wrong_shape") from error
    if len(answers) > max_lessons:
        raise UnusableAnswer(f"There are {len(answers)} lessons; give at most {max_lessons}.", code="wrong_shape")
    for answer in answers:
        if any(not 1 <= number <= MAX_STEP for number in answer.evidence_steps):
            raise UnusableAnswer("evidence_steps holds a number below 1; steps count from 1.", code="no_such_step")
        if answer.covers_existing and answer.covers_existing not in labels:
            raise UnusableAnswer("covers_existing is the label of no heuristic that was shown.", code="no_such_label")
    return tuple(answers)


def read_object(text: str, *, finish_reason: str, limits: JsonLimits = LIMITS) -> dict[str, Any]:
    """Return the JSON object of an answer; raise `UnusableAnswer` where there is none. A code fence is forgiven."""
    if finish_reason == "refusal":
        raise UnusableAnswer("The model refused to answer.", code="refusal")
    if finish_reason == "length":
        raise UnusableAnswer(
            "The answer was cut off by the limit on its length; write less, or raise ERL_LLM_MAX_OUTPUT_TOKENS.",
            code="cut_off",
        )
    if not text.strip():
        raise UnusableAnswer("The answer was empty.", code="empty")
    return _read(strip_fence(text), limits)


def answer_schema(max_lessons: int) -> dict[str, Any]:
    """Return the JSON schema of the answer, in the subset that OpenAI's strict mode and llama.cpp both take."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    properties: dict[str, Any] = {
        "learn": {"type": "boolean"},
        "skip_reason": text,
        "title": text,
        "analysis": text,
        "trigger": text,
        "action": text,
        "avoid": text,
        "not_when": text,
        "polarity": {"type": "string", "enum": ["success", "failure", "mixed"]},
        "task_type": text,
        "tools": texts,
        "evidence_steps": {"type": "array", "items": {"type": "integer"}},
        "confidence": {"type": "number"},
        "covers_existing": {"type": ["string", "null"]},
    }
    lesson = closed_object(properties)
    return lesson if max_lessons == 1 else closed_object({"lessons": {"type": "array", "items": lesson}})


def _read(text: str, limits: JsonLimits) -> dict[str, Any]:
    # This character stands for those that cannot be stored.
    if "\ufffd" in text:
        raise UnusableAnswer("The answer contains characters that cannot be stored.", code="not_storable")
    try:
        document = parse_json(text.encode(), limits=limits)
    except InvalidJson as error:
        raise UnusableAnswer(f"The answer is not usable JSON. {error}", code="not_json") from error
    if not isinstance(document, dict):
        raise UnusableAnswer("The answer is not a JSON object.", code="not_json")
    return document


def describe(error: ValidationError) -> str:
    """Say what is wrong in the model's object by place and kind, without repeating what it wrote."""
    faults = []
    for fault in error.errors(include_url=False, include_input=False, include_context=False)[:5]:
        path = ".".join(str(part)[:40] for part in fault["loc"])
        faults.append(f"{path}: {fault['msg']}" if path else fault["msg"])
    return f"The JSON object has the wrong shape: {'; '.join(faults)}."
