"""What clients may send: one JSON object in UTF-8, of bounded size, and the pydantic models that read its members.

Bodies, query parameters and the runs of a file are all read by such models. JSON is taken at its word: a number is not
a text, `"yes"` is not true, and unknown members are refused.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, Any, Self, TypeAlias, get_args, get_origin
from uuid import UUID

from django.conf import settings
from django.db.models import TextChoices
from django.http import HttpRequest
from drf_spectacular.plumbing import list_hash
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from memory.api.errors import DETAILS, ErrorCode, Refusal
from memory.errors import InvalidInput
from memory.limits import (
    MAX_LESSON_TEXT_CHARS,
    MAX_MEDIA_TYPE_CHARS,
    MAX_NAME_CHARS,
    MAX_RELEASE_NAME_CHARS,
    MAX_RELEASE_NUMBER,
    MAX_REMARKS,
    MAX_TAG_CHARS,
    MAX_TAGS,
)
from memory.strict_json import InvalidJson, parse_json

_CHUNK_BYTES = 65_536
_SUBJECT = re.compile(r"^(Input|String|List|Dictionary|Value) should")


def has_body(request: HttpRequest) -> bool:
    """Tell whether a request announces a body, by its length or by sending it in chunks."""
    length = request.META.get("CONTENT_LENGTH")
    return bool(length != "0" if length else request.META.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked")


def read_body(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object in the body, {} where there is no body.

    Raises:
        Refusal: it is too large, encoded, or of another media type.
        InvalidJson: it is not one JSON object that we can keep, or its sender stopped.
    """
    data = read_json_bytes(request)
    document = parse_json(data) if data else {}  # a chunked body may turn out to be empty
    if not isinstance(document, dict):
        raise InvalidJson("Send one JSON object, not an array or a single value.")
    return document


def read_json_bytes(request: HttpRequest) -> bytes:
    """Return a body of JSON that is not parsed yet, b"" where there is none.

    Reads at most one byte more than the limit, also where the length is not announced. Raises as `read_body` does.
    """
    if not has_body(request):
        return b""
    kind = request.content_type or ""
    # Suffixes are structured syntax, such as application/problem+json (RFC 6839).
    is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    if not is_json or len(kind) > MAX_MEDIA_TYPE_CHARS:
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, DETAILS[ErrorCode.UNSUPPORTED_MEDIA_TYPE])
    if request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower() not in ("", "identity"):
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body without Content-Encoding.")
    if (request.content_params or {}).get("charset", "utf-8").strip("'\"").lower() not in ("utf-8", "utf8"):
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body in UTF-8.")
    return read_bytes(request, limit=settings.ERL_API_MAX_REQUEST_BYTES)


def read_bytes(request: HttpRequest, *, limit: int) -> bytes:
    """Return the bytes of the body, or raise Refusal where they are more than `limit`."""
    announced = request.META.get("CONTENT_LENGTH") or ""
    stream = request if announced else request.META["wsgi.input"]  # Django reads nothing of a body sent in chunks
    chunks: list[bytes] = []
    # A length beyond the limit is refused before a byte is read.
    size = int(announced) if announced.isdecimal() and int(announced) > limit else 0
    try:
        # One byte more than the limit is enough to know that it is passed.
        while size <= limit and (chunk := stream.read(min(_CHUNK_BYTES, limit + 1 - size))):
            chunks.append(chunk)
            size += len(chunk)
    except Exception as error:  # Django's UnreadablePostError, or the server's own for a broken chunk
        raise InvalidJson("The body ended early.") from error
    if size > limit:
        raise Refusal(
            ErrorCode.REQUEST_TOO_LARGE,
            f"Send at most {limit:,} bytes; the operator can change this with ERL_API_MAX_REQUEST_BYTES.",
        )
    return b"".join(chunks)


class Input(BaseModel):
    """An object or a query whose every member is known.

    Members that may be left out have a default; `sent` tells them from those that were sent.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _take_family(cls, sent: Any) -> Any:
        """Take `family` for `task_id`, the older name of the same member, where a model has that."""
        if "task_id" not in cls.model_fields or not isinstance(sent, Mapping) or "family" not in sent:
            return sent
        if sent.get("task_id", sent["family"]) != sent["family"]:
            raise wrong_member("family", "This is the task family, and so is task_id. Send one of them.")
        members = dict(sent)
        return members | {"task_id": members.pop("family")}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Show both names of the task family."""
        schema = handler.resolve_ref_schema(handler(core))
        if "task_id" in cls.model_fields:
            members = schema["properties"]
            old = members["task_id"] | {"deprecated": True, "description": "An older name of `family`."}
            schema["properties"] = {
                name: value
                for member, description in members.items()
                for name, value in (
                    {"family": description | {"title": "Family"}, member: old}
                    if member == "task_id"
                    else {member: description}
                ).items()
            }
        return schema

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """Read a JSON object, or raise InvalidInput with JSON pointers."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise InvalidInput(_name_family(_faults(error, "/", cls.model_fields), body)) from None

    @classmethod
    def from_query(cls, params: Mapping[str, str]) -> Self:
        """Read query parameters, or raise InvalidInput with their names. Lists are written with commas."""
        # Only these are split: a text may hold commas.
        lists = {
            name
            for name, field in cls.model_fields.items()
            if any(get_origin(part) is list for part in (field.annotation, *get_args(field.annotation)))
        }
        values = {name: text.split(",") if name in lists else text for name, text in params.items()}
        try:
            return cls.model_validate(values, strict=False)  # "5" is a number here
        except ValidationError as error:
            faults = _faults(error, "", cls.model_fields)
            raise InvalidInput(_name_family(faults, params), code="invalid_query") from None

    def sent(self) -> dict[str, Any]:
        """Return the members that were sent or filled in, by name."""
        return {name: getattr(self, name) for name in self.model_fields_set}


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of the words of a choice: `Annotated[str, OneOf(Trajectory.Outcome)]`."""

    choices: type[TextChoices]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # A literal, not an enum, so that the model holds plain strings as the columns do.
        return core_schema.literal_schema(list(self.choices.values))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Name the choices as drf-spectacular does, so that requests and answers share one schema of them."""
        names = list_hash([(str(value), str(label)) for value, label in self.choices.choices])
        return {"type": "string", "enum": list(self.choices.values), "x-spec-enum-id": names}


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """A release by its number, as text or as a number, by its hash, or by the beginning of it."""

    min_length: int = 0
    pattern: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(
            min_length=self.min_length, max_length=MAX_RELEASE_NAME_CHARS, pattern=self.pattern, strict=True
        )
        return core_schema.no_info_before_validator_function(self._as_text, text)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        text: dict[str, Any] = {"type": "string", "maxLength": MAX_RELEASE_NAME_CHARS}
        text |= {"minLength": self.min_length} if self.min_length else {}
        text |= {"pattern": self.pattern} if self.pattern else {}
        return {"anyOf": [text, {"type": "integer", "minimum": 1, "maximum": MAX_RELEASE_NUMBER}]}

    @staticmethod
    def _as_text(value: Any) -> Any:
        # `type`, because True is an instance of int.
        return str(value) if type(value) is int and 0 < value <= MAX_RELEASE_NUMBER else value


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
UserId: TypeAlias = Annotated[
    Name,
    Field(
        description="Your own id of the end user it is about, to filter by and to erase a person by. An e-mail address "
        "or phone number is stored as its placeholder."
    ),
]
WHOLE = BeforeValidator(_whole)  # Annotated[int, Field(ge=0), WHOLE]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1, json_schema_extra={"format": "double"})]
Percent: TypeAlias = Annotated[float, Field(ge=0, le=100, json_schema_extra={"format": "double"})]
Dollars: TypeAlias = Annotated[
    Decimal,
    BeforeValidator(_dollars),
    Field(ge=0, lt=100_000_000),
    WithJsonSchema({"type": "number", "format": "double", "minimum": 0, "exclusiveMaximum": 100_000_000}),
]
Moment: TypeAlias = Annotated[AwareDatetime, Field(strict=False)]
Id: TypeAlias = Annotated[UUID, Field(strict=False)]
ContentHash: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
LongText: TypeAlias = Annotated[str, Field(max_length=MAX_LESSON_TEXT_CHARS)]
Tags: TypeAlias = Annotated[list[Annotated[Text, Field(max_length=MAX_TAG_CHARS)]], Field(max_length=MAX_TAGS)]
Remarks: TypeAlias = Annotated[
    list[Annotated[Text, Field(max_length=MAX_LESSON_TEXT_CHARS)]], Field(max_length=MAX_REMARKS)
]


def _faults(error: ValidationError, root: str, known: Iterable[str]) -> dict[str, list[str]]:
    """Return sentences by place: JSON pointers for a body, names for a query. `known` are the members there are."""
    fields: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_input=False):
        path = [str(part) for part in fault["loc"]]
        if fault["type"] == "member":
            path.append(fault["ctx"]["member"])
        # A query has only names; the index within a list of it means nothing to its sender.
        where = root + "/".join(path if root else path[:1])
        text = write_fault(fault["type"], fault["msg"])
        if fault["type"] == "extra_forbidden" and len(path) == 1 and (meant := _find_meant(path[0], known)):
            text = f"This member is unknown. It may be {meant} that you mean; otherwise leave it out."
        fields.setdefault(where, []).append(text)
    return fields


def _find_meant(name: str, known: Iterable[str]) -> str:
    """Return a member whose name has this one in it, or nearly the same letters; "" if there is none."""
    holding = [member for member in known if f"_{name}" in f"_{member}" or f"{name}_" in f"{member}_"]
    return next(iter(holding or get_close_matches(name, known, n=1, cutoff=0.75)), "")


def _name_family(fields: dict[str, list[str]], sent: Mapping[str, Any]) -> dict[str, list[str]]:
    """Name the task family in faults as it was sent."""
    if "family" not in sent:
        return fields
    return {
        field.replace("task_id", "family") if field.lstrip("/") == "task_id" else field: fields[field]
        for field in fields
    }


def write_fault(kind: str, message: str) -> str:
    """Return what pydantic says about a value as a sentence to the sender."""
    if kind == "missing":
        return "This member is required."
    if kind == "extra_forbidden":
        return "This member is unknown. Leave it out."
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return "This should be an object."
    if message.startswith("Value should have"):  # a text whose other checks come first
        message = message.replace(" items", " characters")
    message = _SUBJECT.sub("This should", message.removeprefix("Value error, "))
    return message.replace(" after validation", "").removesuffix(".") + "."
