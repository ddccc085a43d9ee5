"""What clients read: pydantic models that are filled from rows. The last are the shape of an error."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from memory.api.errors import ErrorCode
from memory.api.input import OneOf


class Answer(BaseModel):
    """A row as clients read it: each member from the attribute of its name, or from `source`."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def write(cls, row: Any) -> dict[str, Any]:
        """Return what is sent of a row."""
        # Members that were checked when they were stored are not made into models again, only sent (`SkipValidation`).
        return cls.model_validate(row).model_dump(mode="json", warnings=False)

    @classmethod
    def write_all(cls, rows: Iterable[Any]) -> list[dict[str, Any]]:
        """Return what is sent of each row."""
        return [cls.write(row) for row in rows]


class Pagination(BaseModel):
    """Which part of a list this is."""

    limit: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)]
    total: Annotated[int, Field(ge=0)]


def source(*names: str, description: str | None = None) -> Any:
    """Read a member from another attribute, or from one of a related row."""
    return Field(validation_alias=AliasPath(*names), description=description)


def _newest(rows: Any) -> Any:
    return rows[0] if rows else None


def _all(rows: Any) -> list[Any]:
    return list(rows.all())


FIRST = BeforeValidator(_newest)  # of rows that were fetched
ROWS = BeforeValidator(_all)  # of a related manager


class ProblemError(BaseModel):
    code: Annotated[str, OneOf(ErrorCode)]
    message: Annotated[str, Field(description="A sentence that says what to do next.")]
    request_id: Annotated[str, Field(description="The X-Request-ID of this response.")]
    retryable: Annotated[bool, Field(description="Whether the same request may succeed if it is sent again.")]
    fields: Annotated[
        dict[str, list[str]],
        Field(description="What is wrong and where: JSON pointers for the body, bare names for query parameters."),
    ]


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    error: ProblemError
