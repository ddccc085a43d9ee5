"""What clients may send, as pydantic models: bodies, query parameters and the runs of a file are all read through here.

JSON is taken at its word: a number is not a text, `"yes"` is not true, and unknown members are refused. Reading takes
microseconds, because the models are compiled; answers are plain dictionaries or serializers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Self, TypeAlias, get_origin
from uuid import UUID

from django.db.models import TextChoices
from drf_spectacular.plumbing import list_hash
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from memory.errors import InvalidInput
from memory.limits import MAX_LESSON_TEXT_CHARS, MAX_NAME_CHARS, MAX_REMARKS, MAX_TAG_CHARS, MAX_TAGS


class Input(BaseModel):
    """An object or a query whose every member is known.

    Members that may be left out have a default; `sent` tells them from those that were sent.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """Read a JSON object, or raise InvalidInput with JSON pointers."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise InvalidInput(_faults(error, "/")) from None

    @classmethod
    def from_query(cls, params: Mapping[str, str]) -> Self:
        """Read query parameters, or raise InvalidInput with their names. Lists are written with commas."""
        lists = {name for name, field in cls.model_fields.items() if get_origin(field.annotation) is list}
        values = {name: text.split(",") if name in lists else text for name, text in params.items()}
        try:
            return cls.model_validate(values, strict=False)  # "5" is a number here
        except ValidationError as error:
            raise InvalidInput(_faults(error, ""), code="invalid_query") from None

    def sent(self) -> dict[str, Any]:
        """Return the members that were sent or filled in, by name."""
        return {name: getattr(self, name) for name in self.model_fields_set}


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of the words of a choice: `Annotated[str, OneOf(Trajectory.Outcome)]`."""

    choices: type[TextChoices]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.literal_schema(list(self.choices.values))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Name the choices as drf-spectacular does, so that requests and answers share one schema of them."""
        names = list_hash([(str(value), str(label)) for value, label in self.choices.choices])
        return {"type": "string", "enum": list(self.choices.values), "x-spec-enum-id": names}


def wrong_member(member: str, text: str) -> PydanticCustomError:
    """Return what a validator of a whole object raises about one of its members."""
    return PydanticCustomError("member", "{text}", {"member": member, "text": text})


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "Write something here.")
    return text


def _whole(value: Any) -> Any:
    """Take 3.0 for 3, as JSON Schema does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _dollars(value: Any) -> Any:
    """Drop the digits below a millionth of a dollar, which are noise of binary fractions."""
    return Decimal(f"{value:.6f}") if isinstance(value, int | float) and not isinstance(value, bool) else value


Text: TypeAlias = Annotated[str, AfterValidator(_not_blank)]
Name: TypeAlias = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
WHOLE = BeforeValidator(_whole)  # Annotated[int, Field(ge=0), WHOLE]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1, json_schema_extra={"format": "double"})]
Dollars: TypeAlias = Annotated[
    Decimal,
    BeforeValidator(_dollars),
    Field(ge=0, lt=100_000_000),
    WithJsonSchema({"type": "number", "format": "double", "minimum": 0, "exclusiveMaximum": 100_000_000}),
]
Id: TypeAlias = Annotated[UUID, Field(strict=False)]
ContentHash: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
LongText: TypeAlias = Annotated[str, Field(max_length=MAX_LESSON_TEXT_CHARS)]
Tags: TypeAlias = Annotated[list[Annotated[Text, Field(max_length=MAX_TAG_CHARS)]], Field(max_length=MAX_TAGS)]
Remarks: TypeAlias = Annotated[
    list[Annotated[Text, Field(max_length=MAX_LESSON_TEXT_CHARS)]], Field(max_length=MAX_REMARKS)
]


def _faults(error: ValidationError, root: str) -> dict[str, list[str]]:
    """Return sentences by place: JSON pointers for a body, names for a query."""
    fields: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_input=False):
        place = [str(part) for part in fault["loc"]]
        if fault["type"] == "member":
            place.append(fault["ctx"]["member"])
        where = root + "/".join(place if root else place[:1])
        fields.setdefault(where, []).append(_sentence(fault["type"], fault["msg"]))
    return fields


def _sentence(kind: str, message: str) -> str:
    if kind == "missing":
        return "This member is required."
    if kind == "extra_forbidden":
        return "Leave this member out: it is not known here."
    message = message.removeprefix("Value error, ").replace("Input should", "This should")
    return message.replace(" after validation", "").removesuffix(".") + "."
