"""The codes, statuses, wording and form of error answers: problem details (RFC 9457) with a member `error` (A11)."""

import json
from collections.abc import Mapping, Sequence

import structlog
from django.db.models import TextChoices
from django.http import HttpRequest, HttpResponse
from django.utils.encoding import iri_to_uri
from rest_framework import exceptions
from rest_framework.request import Request

from memory.limits import MAX_ERROR_DETAIL_CHARS, MAX_ERROR_FIELDS, MAX_ERROR_TEXT_CHARS

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 5  # how long a client should wait for the database

type_of = "urn:erl:problem:{}".format


class ErrorCode(TextChoices):
    """Every value `error.code` can have, with its title. Clients may switch on it; it is part of the schema."""

    INVALID_REQUEST = "invalid_request", "The request is not valid"
    INVALID_JSON = "invalid_json", "The body is not acceptable JSON"
    INVALID_STEPS = "invalid_steps", "The steps cannot be read"
    INVALID_QUERY = "invalid_query", "A query parameter is not valid"
    BODY_REQUIRED = "body_required", "The request needs a body"
    IDEMPOTENCY_KEY_INVALID = "idempotency_key_invalid", "The idempotency key is malformed"
    IDEMPOTENCY_KEY_REQUIRED = "idempotency_key_required", "The request needs an idempotency key"
    NOT_AUTHENTICATED = "not_authenticated", "The API key is missing"
    INVALID_API_KEY = "invalid_api_key", "The API key is not accepted"
    PERMISSION_DENIED = "permission_denied", "Permission denied"
    MISSING_SCOPE = "missing_scope", "The API key lacks a scope"
    NOT_FOUND = "not_found", "Not found"
    METHOD_NOT_ALLOWED = "method_not_allowed", "Method not allowed"
    NOT_ACCEPTABLE = "not_acceptable", "No acceptable content type"
    CONFLICT = "conflict", "The request conflicts with another one"
    EXTERNAL_ID_TAKEN = "external_id_taken", "The external id is taken"
    RUN_IS_OPEN = "run_is_open", "The run is not finished"
    RUN_IS_FINISHED = "run_is_finished", "The run is finished"
    STEPS_DIFFER = "steps_differ", "The steps do not continue the stored ones"
    CHANGED_MEANWHILE = "changed_meanwhile", "The text has changed"
    ALREADY_DECIDED = "already_decided", "The decision was already made"
    NOT_SERVABLE = "not_servable", "The heuristic is not served"
    COVERED_BY_ORDER = "covered_by_order", "A quarantine order covers these words"
    NOT_DEPLOYABLE = "not_deployable", "This cannot be deployed now"
    NOTHING_CHANGED = "nothing_changed", "Nothing would change"
    BLOCK_FULL = "block_full", "The block would be too long"
    BLOCK_READ_ONLY = "block_read_only", "The block is read-only"
    NO_SINGLE_MATCH = "no_single_match", "The text does not occur exactly once"
    PATCH_DOES_NOT_APPLY = "patch_does_not_apply", "The patch does not apply"
    CANNOT_MERGE = "cannot_merge", "The two heuristics cannot be merged"
    TOO_LATE_TO_UNDO = "too_late_to_undo", "It is too late to undo this"
    UNKNOWN_RETRIEVAL = "unknown_retrieval", "The retrieval is unknown"
    FEEDBACK_WITHOUT_RUN = "feedback_without_run", "The feedback names no run"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused", "The idempotency key was used for another request"
    IDEMPOTENCY_IN_PROGRESS = "idempotency_in_progress", "The same request is in progress"
    ERASED = "erased", "The result of this request was erased"
    REQUEST_TOO_LARGE = "request_too_large", "The body is too large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", "The body is in an unsupported format"
    RATE_LIMITED = "rate_limited", "Too many requests"
    OVERLOADED = "overloaded", "The server is busy"
    QUEUE_FULL = "queue_full", "The queue is full"
    TOO_MANY_PROPOSALS = "too_many_proposals", "Too many lessons of this client are waiting"
    TOO_MANY_KEYS = "too_many_keys", "Too many idempotency keys are stored"
    NAME_TAKEN = "name_taken", "The name is taken"
    AGENT_ARCHIVED = "agent_archived", "The agent is archived"
    NEVER_EVOLVES = "never_evolves", "No proposal may change this"
    NOT_ON_RUNG = "not_on_rung", "The change is on another rung"
    INTERNAL_ERROR = "internal_error", "Internal server error"
    DATABASE_UNAVAILABLE = "database_unavailable", "The database is unavailable"
    EMBEDDER_UNAVAILABLE = "embedder_unavailable", "The embedder is unavailable"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable", "The sandbox is unavailable"


# The HTTP status of each code; 400 for those that are missing.
STATUS: dict[str, int] = {
    ErrorCode.NOT_AUTHENTICATED: 401,
    ErrorCode.INVALID_API_KEY: 401,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.MISSING_SCOPE: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.UNKNOWN_RETRIEVAL: 404,  # like everything of another project
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.NOT_ACCEPTABLE: 406,
    ErrorCode.CONFLICT: 409,
    ErrorCode.EXTERNAL_ID_TAKEN: 409,
    ErrorCode.RUN_IS_OPEN: 409,
    ErrorCode.RUN_IS_FINISHED: 409,
    ErrorCode.STEPS_DIFFER: 409,
    ErrorCode.CHANGED_MEANWHILE: 409,
    ErrorCode.ALREADY_DECIDED: 409,
    ErrorCode.NOT_SERVABLE: 409,
    ErrorCode.COVERED_BY_ORDER: 409,
    ErrorCode.NOT_DEPLOYABLE: 409,
    ErrorCode.NOTHING_CHANGED: 409,
    ErrorCode.BLOCK_FULL: 409,
    ErrorCode.BLOCK_READ_ONLY: 409,
    ErrorCode.NO_SINGLE_MATCH: 409,
    ErrorCode.PATCH_DOES_NOT_APPLY: 409,
    ErrorCode.CANNOT_MERGE: 409,
    ErrorCode.TOO_LATE_TO_UNDO: 409,
    ErrorCode.IDEMPOTENCY_KEY_REUSED: 409,
    ErrorCode.IDEMPOTENCY_IN_PROGRESS: 409,
    ErrorCode.ERASED: 410,
    ErrorCode.REQUEST_TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.OVERLOADED: 503,
    ErrorCode.QUEUE_FULL: 429,
    ErrorCode.TOO_MANY_PROPOSALS: 429,
    ErrorCode.TOO_MANY_KEYS: 429,
    ErrorCode.NAME_TAKEN: 409,
    ErrorCode.AGENT_ARCHIVED: 409,
    ErrorCode.NEVER_EVOLVES: 409,
    ErrorCode.NOT_ON_RUNG: 409,
    ErrorCode.INTERNAL_ERROR: 500,
    ErrorCode.DATABASE_UNAVAILABLE: 503,
    ErrorCode.EMBEDDER_UNAVAILABLE: 503,
    ErrorCode.SANDBOX_UNAVAILABLE: 503,
}
# The same request, with the same idempotency key, may succeed if it is sent again.
RETRYABLE = frozenset(
    {
        ErrorCode.CONFLICT,
        ErrorCode.IDEMPOTENCY_IN_PROGRESS,
        ErrorCode.RATE_LIMITED,
        ErrorCode.OVERLOADED,
        ErrorCode.QUEUE_FULL,
        ErrorCode.TOO_MANY_PROPOSALS,
        ErrorCode.TOO_MANY_KEYS,
        ErrorCode.DATABASE_UNAVAILABLE,
        ErrorCode.EMBEDDER_UNAVAILABLE,
        ErrorCode.SANDBOX_UNAVAILABLE,
    }
)
DETAILS = {
    ErrorCode.NOT_FOUND: "Nothing exists at this address, or it belongs to another project. Check the path and the id.",
    ErrorCode.NOT_AUTHENTICATED: "Send your API key as `Authorization: Bearer <key>`.",
    ErrorCode.METHOD_NOT_ALLOWED: "Use one of the methods in the Allow header.",
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: "Send the body as application/json in UTF-8.",
    ErrorCode.NOT_ACCEPTABLE: "Ask for application/json in the Accept header, or leave the header out.",
    ErrorCode.DATABASE_UNAVAILABLE: "The database is unavailable. Nothing was changed; send the request again later.",
    ErrorCode.OVERLOADED: "The server is overloaded. Nothing was changed; send this request again after the number "
    "of seconds in Retry-After.",
    ErrorCode.CONFLICT: "Another request changed the same data at the same time. Send the request again.",
    ErrorCode.INTERNAL_ERROR: "The request failed on the server and changed nothing. If it fails again, report its id.",
}


class Refusal(exceptions.APIException):
    """An answer other than success, by its code: `raise Refusal(ErrorCode.NOT_FOUND, "What to do next.")`.

    `fields` maps places to messages: a JSON pointer for a place in the body ("/steps/0/action"), a bare name for a
    query parameter ("limit").
    """

    def __init__(
        self,
        code: ErrorCode,
        detail: str,
        *,
        status: int | None = None,
        fields: Mapping[str, Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail, code)
        self.error_code = code
        self.message = detail
        self.status_code = status or STATUS.get(code, 400)
        self.fields = fields or {}
        self.headers = headers or {}


def problem(
    code: ErrorCode,
    detail: str = "",
    *,
    request: HttpRequest | Request | None = None,
    status: int | None = None,
    fields: Mapping[str, Sequence[str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Build the error response, without a renderer, so that it also works where no view was reached."""
    status = status or STATUS.get(code, 400)
    message = _clip(detail or DETAILS.get(code) or f"{code.label}.", MAX_ERROR_DETAIL_CHARS)
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    shown = list((fields or {}).items())[:MAX_ERROR_FIELDS]
    body = {
        "type": type_of(code.value),
        "title": str(code.label),
        "status": status,
        "detail": message,
        "instance": iri_to_uri(request.path) if request is not None else "",
        "error": {
            "code": code.value,
            "message": message,
            "request_id": request_id,
            "retryable": code in RETRYABLE,
            "fields": {
                _clip(field, MAX_ERROR_TEXT_CHARS): [
                    _clip(text, MAX_ERROR_TEXT_CHARS) for text in texts[:MAX_ERROR_FIELDS]
                ]
                for field, texts in shown
            },
        },
    }
    return HttpResponse(json.dumps(body), status=status, content_type=PROBLEM_TYPE, headers=dict(headers or {}))


def _clip(text: str, limit: int) -> str:
    # A message may quote what was sent, and half of a surrogate pair cannot be written as UTF-8.
    clean = str(text).encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"
