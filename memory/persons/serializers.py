"""Persons as clients ask for them, and what is found and erased."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.input import WHOLE, Input, Name, Text
from memory.api.output import Pagination
from memory.limits import MAX_NAME_CHARS
from memory.persons.query import Person, read_person

MAX_TEXTS = 20
MAX_ROWS = 200


class PersonInput(Input):
    """A person: what one of these holds for is about them."""

    user_id: Annotated[Name, Field(description="Your own id of the end user, as you send it.")] = ""
    texts: Annotated[
        list[Annotated[Text, Field(max_length=MAX_NAME_CHARS)]],
        Field(
            max_length=MAX_TEXTS,
            description="Names, addresses, numbers as they were before redaction; their placeholders are found, too.",
        ),
    ] = Field(default_factory=list)
    search: Annotated[Name, Field(description="Words; a text has to contain all of them.")] = ""

    def person(self) -> Person:
        """Return whom to look for."""
        return read_person(user_id=self.user_id, texts=tuple(self.texts), words=self.search)


class PersonExportInput(PersonInput):
    """A person, and which of the rows about them to return."""

    limit: Annotated[int, Field(ge=1, le=MAX_ROWS), WHOLE] = MAX_ROWS
    offset: Annotated[int, Field(ge=0), WHOLE] = 0


class FindingAnswer(BaseModel):
    """How many rows of a kind there are, with the first of them as examples."""

    kind: str
    label: str
    count: int
    examples: list[str]


Left = Annotated[
    dict[str, int],
    Field(description="What is still there: rows by kind, or if no kind is left, by the column that holds a text."),
]


class PersonFoundAnswer(BaseModel):
    """What there is about a person. What goes with a row, such as a lesson that rests on a run, is not counted."""

    results: list[FindingAnswer]
    elsewhere: Annotated[dict[str, int], Field(description="Rows by the column that holds one of the texts.")]


class PersonRow(BaseModel):
    """A row as it is stored."""

    kind: str
    row: dict[str, Any]


class PersonExportPage(BaseModel):
    """Rows about a person."""

    results: list[PersonRow]
    pagination: Pagination


class PersonErasedAnswer(BaseModel):
    """What went, by kind. The receipt is in the audit chain, and does not say whom it is about."""

    receipt: UUID
    erased: dict[str, int]
    refused: Annotated[list[str], Field(description="What could not be erased now, and why.")]
    left: Left
    complete: Annotated[bool, Field(description="Whether nothing is left; if not, send the request again.")]
