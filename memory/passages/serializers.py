"""Passages as clients read and write them."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.input import WHOLE, Id, Input, Moment, Tags, Text, UserId
from memory.api.output import Pagination
from memory.limits import MAX_FOUND_PASSAGES, MAX_PASSAGE_CHARS, MAX_TASK_CHARS
from memory.passages.models import Passage
from memory.passages.search import FoundPassage
from memory.retrieval.safe_text import clean, clean_text

_USUAL_ROWS = 10


class PassageInput(Input):
    """A text to keep."""

    text: Annotated[Text, Field(max_length=MAX_PASSAGE_CHARS)]
    tags: Tags = Field(default_factory=list)
    user_id: UserId = ""
    owner: Annotated[Id | None, Field(description="The agent it belongs to; null shares it.")] = None
    run_id: Annotated[Id | None, Field(description="The run it comes from; erasing that run deletes it.")] = None


class PassageSearch(Input):
    """What to look for."""

    query: Annotated[Text, Field(max_length=MAX_TASK_CHARS)]
    owner: Annotated[
        Id | None, Field(description="Search the passages of this agent and the shared ones; null searches all.")
    ] = None
    tags: Annotated[Tags, Field(description="Only passages with these tags.")] = Field(default_factory=list)
    match: Annotated[
        Literal["any", "all"], Field(description="Whether one of the tags is enough or all are needed.")
    ] = "any"
    since: Annotated[Moment | None, Field(description="The earliest time, included.")] = None
    until: Annotated[Moment | None, Field(description="The end of the time, not included.")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND_PASSAGES), WHOLE] = _USUAL_ROWS
    offset: Annotated[int, Field(ge=0, le=MAX_FOUND_PASSAGES), WHOLE] = 0


class PassageAnswer(BaseModel):
    """A passage."""

    id: UUID
    text: str
    tags: list[str]
    user_id: str
    owner: UUID | None
    run_id: UUID | None
    text_sha256: Annotated[str, Field(description="Of the text; with a `user_id`, of that and the text.")]
    created_by: str
    created_at: datetime


class FoundPassageAnswer(PassageAnswer):
    """A passage with its score, the sum of what it says, in meaning, in words and in names."""

    score: float
    meaning: float
    words: float
    names: float


class PassagePage(BaseModel):
    """Passages, the newest first."""

    results: list[PassageAnswer]
    pagination: Pagination


class FoundPassagePage(BaseModel):
    """Passages, the best first. At most 200 are found, over all pages."""

    results: list[FoundPassageAnswer]
    pagination: Pagination
    degraded: Annotated[bool, Field(description="The embedder did not answer, so meaning was not compared.")]


def describe_passage(passage: Passage) -> dict[str, Any]:
    """Return a passage as clients read it, safe in a prompt."""
    fields = {name: getattr(passage, name) for name in PassageAnswer.model_fields}
    return fields | {"text": clean_text(passage.text), "tags": [clean(tag) for tag in passage.tags]}


def describe_found(found: FoundPassage) -> dict[str, Any]:
    """Return a passage that was found as clients read it."""
    parts = {name: round(getattr(found.parts, name) or 0.0, 4) for name in ("meaning", "words", "names")}
    return describe_passage(found.passage) | {"score": round(found.score, 4), **parts}
