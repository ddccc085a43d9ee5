"""The question to a language model which lessons a task needs (reference: ERL c.4), and its answer.

Lessons and task are delimited, marked data: a lesson that says "choose me" is a line like any other (reliability D6).
"""

from collections.abc import Sequence

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.limits import JsonLimits
from memory.retrieval.llm_ranking import MAX_SUBTASKS, Choice, OfferedHeuristic
from memory.strict_json import InvalidJson, parse_json
from reflection.errors import ReflectionError
from reflection.llm.base import Completion, CompletionRequest, closed_object, estimate_tokens, strip_fence
from reflection.prompts import read_prompt
from reflection.prompts.frame import Frame, cut_middle

TASK_CHARACTERS, SOURCE_TASK_CHARACTERS, TRIGGER_CHARACTERS, GUIDELINE_CHARACTERS = 6000, 160, 300, 600
LIMITS = JsonLimits(depth_levels=5, values=5_000, text_chars=4_096)


class UnusableRanking(ReflectionError):
    """The model answered something that cannot be read as a choice of lessons."""

    code = "unusable_answer"


class _Selected(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = Field(max_length=40)
    similarity: float = Field(allow_inf_nan=False)
    informativeness: float = Field(allow_inf_nan=False)
    subtask: int = 0
    why: str = Field(default="", max_length=2000)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    subtasks: list[str] = Field(default=[], max_length=100)
    selected: list[_Selected] = Field(max_length=1000)


def build_requests(
    task: str, lessons: Sequence[OfferedHeuristic], *, batch_size: int | None, top_k: int
) -> list[CompletionRequest]:
    """Return one question for each batch; a batch that is too long for the model is split."""
    size = min(batch_size or len(lessons), len(lessons))
    while True:
        batches = [lessons[start : start + size] for start in range(0, len(lessons), size)]
        requests = [_build_request(task, batch, top_k=top_k) for batch in batches]
        longest = max(estimate_tokens(request.system) + estimate_tokens(request.user) for request in requests)
        if longest <= settings.ERL_LLM_MAX_INPUT_TOKENS or size == 1:
            return requests
        size = -(-size // 2)


def read_answer(completion: Completion) -> list[Choice]:
    """Return what the model chose, with sub-tasks in words.

    Raises:
        UnusableRanking: it is not the object that was asked for.
    """
    if completion.finish_reason in ("length", "refusal"):
        raise UnusableRanking(f"The answer ended with {completion.finish_reason}.")
    try:
        document = parse_json(strip_fence(completion.text).encode(), limits=LIMITS)
        answer = _Answer.model_validate(document)
    except (InvalidJson, ValidationError) as error:
        raise UnusableRanking("The answer is not the JSON object that was asked for.") from error
    subtasks = [text.strip() for text in answer.subtasks[:MAX_SUBTASKS]]
    return [
        Choice(
            label=one.id,
            similarity=one.similarity,
            informativeness=one.informativeness,
            subtask=subtasks[one.subtask - 1] if 1 <= one.subtask <= len(subtasks) else "",
            why=one.why,
        )
        for one in answer.selected
    ]


def _build_request(task: str, lessons: Sequence[OfferedHeuristic], *, top_k: int) -> CompletionRequest:
    frame = Frame.of((task, lessons))
    blocks = frame.blocks(
        [
            ("NEW TASK", [cut_middle(task, TASK_CHARACTERS)]),
            ("LESSONS", [_show(lesson) for lesson in lessons]),
        ]
    )
    wanted = str(min(top_k, len(lessons)))
    return CompletionRequest(
        system=read_prompt("rank-lessons").fill(top_k=wanted),
        user=read_prompt("rank-data").fill(boundary=frame.boundary, mark=frame.mark, blocks=blocks, top_k=wanted),
        max_output_tokens=settings.ERL_LLM_MAX_OUTPUT_TOKENS,
        json_schema=_SCHEMA,
    )


def _show(lesson: OfferedHeuristic) -> dict[str, str]:
    shown = {
        "id": lesson.label,
        "learnt_from": cut_middle(lesson.source_task, SOURCE_TASK_CHARACTERS),
        "trigger": cut_middle(lesson.trigger, TRIGGER_CHARACTERS),
        "action": cut_middle(lesson.guideline, GUIDELINE_CHARACTERS),
    }
    return {name: value for name, value in shown.items() if value}


_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_SCHEMA = closed_object(
    {
        "subtasks": {"type": "array", "items": _TEXT},
        "selected": {
            "type": "array",
            "items": closed_object(
                {
                    "id": _TEXT,
                    "similarity": _NUMBER,
                    "informativeness": _NUMBER,
                    "subtask": {"type": "integer"},
                    "why": _TEXT,
                }
            ),
        },
    }
)
