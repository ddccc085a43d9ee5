"""What the OpenAPI document says beyond what the serializers say: keys, headers, errors and examples."""

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel

from memory.api.base import BODY_METHODS, ApiView
from memory.api.errors import PROBLEM_TYPE, STATUS, ErrorCode
from memory.api.idempotency import SAFE_METHODS
from memory.api.output import Problem

Json = dict[str, Any]

EXAMPLES = Path(__file__).with_name("examples.json")  # recorded from a run of the API (tests/api/recorded.py)
ERRORS: dict[int, str] = {
    400: "Something in the request is not valid. `error.fields` says what and where.",
    401: "The API key is missing, unknown, revoked or expired.",
    403: "The API key lacks the scope.",
    404: "Nothing exists at this address, or it belongs to another project.",
    406: "The `Accept` header allows no content type that the answer can have. Nothing was changed.",
    409: "The request conflicts with existing data. `error.retryable` says whether to repeat it.",
    410: "The result of the repeated request has since been erased.",
    412: "The text changed after it was read; `If-Match` names another one.",
    413: "The body is too large.",
    415: "The body is not JSON in UTF-8.",
    429: "Too many requests of this key, in this scope or at once, or too much is waiting. Send it again after "
    "`Retry-After` seconds.",
    500: "The server failed, and nothing was changed.",
    503: "The database is unavailable. Send the request again after `Retry-After` seconds.",
}
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="A new value for every new request, 1 to 255 letters, digits and . _ ~ : + / = -. Repeating a "
    "request with its key has no second effect and returns the same bytes, for 72 hours; the same key with a "
    "different request gets 409.",
)
REQUEST_ID = OpenApiParameter(
    "X-Request-ID",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="Your id for this request, up to 128 letters, digits and . _ -; it comes back and goes into every log.",
)
LOCATION = OpenApiParameter(
    "Location",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[200, 201, 202],
    description="The address of the result.",
)
PREFER = OpenApiParameter(
    "Prefer",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="`wait=N`: how many seconds to wait for the result. As RFC 7240 has it, what is no whole number is "
    "ignored; an answer that was waited for says so in `Preference-Applied`.",
)
ETAG = OpenApiParameter(
    "ETag",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[200, 201],
    description="The `content_sha256` in double quotes.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="The ETag you have; 304 if nothing has changed.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="The ETag you read; 412 if the text has changed since.",
)


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "memory.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> Json:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key: `Authorization: Bearer erl_live_…`. It belongs to one project and sees nothing "
            "else. Every operation names the scope that the key needs. `manage.py create_api_key` makes one.",
        }

    def get_security_requirement(self, auto_schema: AutoSchema) -> dict[str, list[Any]]:
        return {"apiKey": find_scopes(cast(ApiView, auto_schema.view), auto_schema.method)}


class BodySchema(PydanticExtension):  # type: ignore[no-untyped-call]
    """Writes the schema of what clients send and read: that of a request as it is taken, of an answer as it is sent."""

    target_class = "pydantic.BaseModel"
    match_subclasses = True
    priority = 1

    def map_serializer(self, auto_schema: Any, direction: Any) -> Json:
        mode: Literal["validation", "serialization"] = "validation" if direction == "request" else "serialization"
        schema: Json = self.target.model_json_schema(ref_template="#/components/schemas/{model}", mode=mode)
        for name, part in schema.pop("$defs", {}).items():
            component = ResolvedComponent(name, ResolvedComponent.SCHEMA, simplify_schema(part), name)  # type: ignore[no-untyped-call]
            auto_schema.registry.register_on_missing(component)
        plain: Json = simplify_schema(schema)
        return plain


class ApiSchema(AutoSchema):
    """Adds to every operation what all of them share."""

    view: Any

    def map_parsers(self) -> list[str]:
        return ["application/json"]

    def get_override_parameters(self) -> list[Any]:
        changes = self.method not in SAFE_METHODS
        return [*([IDEMPOTENCY_KEY] if changes else []), REQUEST_ID]

    def get_description(self) -> str:  # type: ignore[override]
        scopes = " and ".join(f"`{scope}`" for scope in find_scopes(self.view, self.method))
        return f"{super().get_description().strip()}\n\nScope: {scopes}."

    def get_operation(self, *args: Any, **kwargs: Any) -> Json | None:
        operation: Json | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        self.resolve_serializer(Problem, "response")  # type: ignore[arg-type]  # a model of pydantic is taken too
        for status in find_error_statuses(self.view, self.method, has_id="{" in self.path):
            operation["responses"][str(status)] = {"$ref": f"#/components/responses/Error{status}"}
        operation["responses"] = dict(sorted(operation["responses"].items()))
        if "requestBody" in operation:
            operation["requestBody"]["required"] = not self.view.body_optional
        add_examples(operation)
        return operation

    def _get_pagination_parameters(self) -> list[Json]:
        if self.method == "GET" and self.view.pagination_class is not None:
            parameters: list[Json] = self.view.pagination_class().get_schema_operation_parameters(self.view)
            return parameters
        return []


def describe(operation_id: str, *, tag: str, summary: str, **details: Any) -> Callable[[Any], Any]:
    """Name and describe one operation; `details` go to drf-spectacular's `extend_schema`."""
    return extend_schema(operation_id=operation_id, tags=[tag], summary=summary, **details)


def find_scopes(view: ApiView, method: str) -> list[str]:
    return [str(scope) for scope in (view.required_scopes[method], *view.further_scopes)]


def find_error_statuses(view: Any, method: str, *, has_id: bool) -> Iterable[int]:
    """Return the error statuses an operation can answer with."""
    yield from (400, 401, 403, 406, 429, 500, 503)
    if has_id or method in BODY_METHODS or getattr(view, "query_names_rows", False):  # a body may name rows too
        yield 404
    if method not in SAFE_METHODS:
        yield from (409, 410, 413, 415)  # a body is read even where none is needed
    if method == "PATCH" or getattr(view, "reads_if_match", False):
        yield 412


def query_parameters(model: type[BaseModel], names: Iterable[str], *, optional: bool = False) -> list[OpenApiParameter]:
    """Describe a model's fields as query parameters; `optional` where another form of the request has none of them."""
    schema = model.model_json_schema()
    properties = {name: value for name, value in schema["properties"].items() if name in names}
    return [
        OpenApiParameter(
            name,
            {key: value for key, value in _without_null(field).items() if key not in ("title", "description")},
            OpenApiParameter.QUERY,
            required=name in schema.get("required", ()) and not optional,
            description=field.get("description", ""),
            explode=False if _without_null(field).get("type") == "array" else None,
        )
        for name, field in properties.items()
    ]


def add_examples(operation: Json) -> None:
    """Put the recorded request and answers of an operation into it."""
    recorded = load_examples().get(operation["operationId"])
    if recorded is None:
        return
    if "request" in recorded and "requestBody" in operation:
        operation["requestBody"]["content"]["application/json"]["example"] = recorded["request"]
    for status, body in recorded["responses"].items():
        for content in operation["responses"].get(status, {}).get("content", {}).values():
            content["example"] = body


def add_shared_parts(result: Json, generator: Any, request: Any, public: bool) -> Json:
    """Add the error answers, the response headers and the two addresses outside the API (a drf-spectacular hook)."""
    components = result["components"]
    components["headers"] = {
        "XRequestID": {"description": "The id of this request, yours or ours.", "schema": {"type": "string"}}
    }
    for path in result["paths"].values():
        for operation in path.values():
            for answer in operation["responses"].values():
                if "$ref" not in answer:
                    answer["description"] = answer["description"] or "Success."
                    answer.setdefault("headers", {})["X-Request-ID"] = {"$ref": "#/components/headers/XRequestID"}
    either = components["schemas"]["HeuristicsOrLessons"]
    either["anyOf"] = either.pop("oneOf")  # an empty list of lessons is an empty page too
    components["responses"] = {f"Error{status}": _error_response(status) for status in ERRORS}
    result["paths"] |= _health_paths()
    for schema in components["schemas"].values():
        _drop_noise(schema)
    return result


def simplify_schema(schema: Any) -> Any:
    """Leave out titles and defaults that say nothing, and write a text or null as `type: [string, null]`."""
    if isinstance(schema, list):
        return [simplify_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        name: simplify_schema(part)
        for name, part in schema.items()
        if not (name == "default" and not part) and not (name == "title" and isinstance(part, str))
    }
    if "required" in plain:
        plain["required"] = sorted(plain["required"])
    match plain.get("anyOf"):
        case [{"type": str(kind)} as only, {"type": "null"}] if not only.keys() & {"enum", "const"}:
            del plain["anyOf"]
            plain |= only | {"type": [kind, "null"]}
    return plain


def _drop_noise(schema: Any) -> None:
    """Drop titles made from names, and `readOnly` where a schema is only ever answered."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        if schema.get("readOnly") is True:
            del schema["readOnly"]
        for inner in schema.values():
            _drop_noise(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _drop_noise(inner)


@lru_cache(maxsize=1)
def load_examples() -> Json:
    """Return the recorded request and answers of each operation, by operation id."""
    recorded: Json = json.loads(EXAMPLES.read_text()) if EXAMPLES.exists() else {}
    return recorded


def _error_response(status: int) -> Json:
    recorded = load_examples().get(f"error{status}")
    content: Json = {"schema": {"$ref": "#/components/schemas/Problem"}}
    if recorded is not None:
        content["example"] = recorded["responses"][str(status)]
    codes = [code.value for code in ErrorCode if STATUS.get(code, 400) == status]
    if status == 412:
        codes = [ErrorCode.CHANGED_MEANWHILE.value]
    error_codes = ", ".join(f"`{code}`" for code in codes)
    return {
        "description": f"{ERRORS[status]} `error.code` is one of {error_codes}.",
        "headers": {"X-Request-ID": {"$ref": "#/components/headers/XRequestID"}},
        "content": {PROBLEM_TYPE: content},
    }


def _health_paths() -> Json:
    def operation(operation_id: str, summary: str, description: str, answers: Json) -> Json:
        return {
            "get": {
                "operationId": operation_id,
                "tags": ["health"],
                "summary": summary,
                "description": description,
                "security": [],
                "responses": dict(
                    sorted(
                        {
                            **{status: _health_answer(*answer) for status, answer in answers.items()},
                            "400": {"$ref": "#/components/responses/Error400"},  # a Host header that is none
                        }.items()
                    )
                ),
            }
        }

    checks = {"database": "ok", "broker": "ok", "embedder": "ok"}
    failed = {"status": "unavailable", "checks": checks | {"database": "unavailable"}}
    return {
        "/health": operation(
            "getHealth",
            "Is the process alive?",
            "Checks only this process. Restart it if it does not answer.",
            {"200": ("The process answers.", {"status": "ok"})},
        ),
        "/ready": operation(
            "getReadiness",
            "Can requests be served?",
            "`degraded` still serves requests: without the broker, reflections wait; without the embedder, searches "
            "use words only.",
            {
                "200": ("Requests can be served.", {"status": "ready", "checks": checks}),
                "503": ("The database is unavailable.", failed),
            },
        ),
    }


def _health_answer(description: str, example: Json) -> Json:
    schema = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
    return {"description": description, "content": {"application/json": {"schema": schema, "example": example}}}


def _without_null(field: Json) -> Json:
    """Drop the null that a query parameter cannot be."""
    options = [option for option in field.get("anyOf", []) if option != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key != "anyOf" and value is not None}
    return rest | options[0] if len(options) == 1 else field
