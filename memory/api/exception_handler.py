"""Exceptions of views, services and the database, and the error answers they become."""

import math
from collections.abc import Mapping
from typing import Any

import structlog
from django.core.exceptions import (
    BadRequest,
    DisallowedHost,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.core.exceptions import ValidationError as ModelValidationError
from django.db import DataError, IntegrityError, InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpResponse, UnreadablePostError
from rest_framework import exceptions
from rest_framework.request import Request

from memory.api.errors import DETAILS, RETRY_AFTER_SECONDS, ErrorCode, Refusal, problem
from memory.errors import InvalidInput, MemoryAppError

log = structlog.get_logger(__name__)

_DRF_CODES: dict[type[exceptions.APIException], ErrorCode] = {
    exceptions.NotAuthenticated: ErrorCode.NOT_AUTHENTICATED,
    exceptions.AuthenticationFailed: ErrorCode.INVALID_API_KEY,
    exceptions.PermissionDenied: ErrorCode.PERMISSION_DENIED,
    exceptions.NotFound: ErrorCode.NOT_FOUND,
    exceptions.MethodNotAllowed: ErrorCode.METHOD_NOT_ALLOWED,
    exceptions.NotAcceptable: ErrorCode.NOT_ACCEPTABLE,
    exceptions.UnsupportedMediaType: ErrorCode.UNSUPPORTED_MEDIA_TYPE,
    exceptions.Throttled: ErrorCode.RATE_LIMITED,
    exceptions.ParseError: ErrorCode.INVALID_REQUEST,
}
# The database only reads, as a standby does, or PostgreSQL ended the connection because this process was idle in a
# transaction: read_only_sql_transaction, idle_in_transaction_session_timeout, transaction_timeout
# (https://www.postgresql.org/docs/18/errcodes-appendix.html).
_UNAVAILABLE = ("25006", "25P03", "25P04")


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """Answer an exception of a view; None means a bug of ours, which Django logs and answers with 500."""
    request: Request | None = context.get("request")
    refusal = find_refusal(exc)
    if refusal is None:
        return None
    return problem(
        refusal.error_code,
        refusal.message,
        request=request,
        status=refusal.status_code,
        fields=refusal.fields,
        headers=refusal.headers,
    )


def find_refusal(exc: BaseException) -> Refusal | None:
    """Return the answer to what a view, a service or the database raised; None where there is none but 500."""
    match exc:
        case Refusal():
            return exc
        case InvalidInput():
            field, texts = next(iter(exc.fields.items()))
            return Refusal(ErrorCode(exc.code), f"{field}: {texts[0]}", fields=exc.fields)
        case MemoryAppError():
            code = ErrorCode(exc.code) if exc.code in ErrorCode.values else ErrorCode.INVALID_REQUEST
            pointer = getattr(exc, "pointer", "")
            fields = {pointer: [getattr(exc, "reason", str(exc))]} if pointer else None
            wait = getattr(exc, "retry_after_seconds", None)
            headers = {"Retry-After": str(math.ceil(wait))} if wait else None
            return Refusal(code, str(exc), fields=fields, headers=headers)
        case exceptions.ValidationError():  # of the filters of a list
            faults: dict[str, list[str]] = {name: [str(text) for text in texts] for name, texts in exc.detail.items()}  # type: ignore[union-attr]
            name, texts = next(iter(faults.items()))
            return Refusal(ErrorCode.INVALID_QUERY, f"{name}: {texts[0]}", fields=faults)
        case ModelValidationError():
            return Refusal(ErrorCode.INVALID_REQUEST, exc.messages[0], fields={"": exc.messages})
        case exceptions.APIException():
            return _from_drf(exc)
        case Http404():
            return Refusal(ErrorCode.NOT_FOUND, "")
        case PermissionDenied():
            return Refusal(ErrorCode.PERMISSION_DENIED, "")
        case RequestDataTooBig():
            return Refusal(ErrorCode.REQUEST_TOO_LARGE, "Send a smaller body.")
        case DisallowedHost():
            text = "This host name is not in ERL_ALLOWED_HOSTS. Use the address of the site, or add the name."
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        case SuspiciousOperation() | BadRequest():
            return Refusal(ErrorCode.INVALID_REQUEST, "The request is malformed.")
        case UnreadablePostError():
            return Refusal(ErrorCode.INVALID_REQUEST, "The body ended early.")
        case _:
            return _from_database(exc)


def _from_drf(exc: exceptions.APIException) -> Refusal | None:
    code = next((code for kind, code in _DRF_CODES.items() if isinstance(exc, kind)), None)
    if code is None:
        return None
    headers = {}
    if challenge := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(exc, "wait", None)) is not None:  # of Throttled
        headers["Retry-After"] = str(math.ceil(wait))
    detail = DETAILS.get(code) or (str(exc.detail) if isinstance(exc.detail, str) else "")
    return Refusal(code, detail, headers=headers)


def _from_database(exc: BaseException) -> Refusal | None:
    cause = getattr(exc.__cause__, "sqlstate", None)
    if cause == "40P01":  # deadlock_detected: the database is there, and the request can be sent again
        log.warning("deadlock_unresolved")
        return Refusal(ErrorCode.CONFLICT, DETAILS[ErrorCode.CONFLICT], headers={"Retry-After": "1"})
    if isinstance(exc, OperationalError | InterfaceError) or (isinstance(exc, InternalError) and cause in _UNAVAILABLE):
        log.warning("database_unavailable", sqlstate=cause, error=type(exc.__cause__ or exc).__name__)
        return Refusal(
            ErrorCode.DATABASE_UNAVAILABLE,
            DETAILS[ErrorCode.DATABASE_UNAVAILABLE],
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    match exc:
        case IntegrityError() if cause == "23505":  # unique_violation: another request was first
            log.warning("unique_violation_unhandled")
            return Refusal(ErrorCode.CONFLICT, DETAILS[ErrorCode.CONFLICT], headers={"Retry-After": "1"})
        case DataError():
            log.error("data_error_unhandled", sqlstate=cause)
            return Refusal(ErrorCode.INVALID_REQUEST, "A value is outside what can be stored.")
        case _:
            return None
