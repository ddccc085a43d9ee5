"""The same request twice has one effect and one answer (reliability A1–A9).

Effect, key and the bytes of the answer are committed together, so there is no moment at which one exists without the
other: a crash before the commit leaves nothing, a crash after it leaves a replay.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.authentication import key_of
from memory.api.canonical import canonical_json, canonical_request, fingerprint, is_same_fingerprint
from memory.api.errors import ErrorCode, Refusal
from memory.api.models import IdempotencyRecord
from memory.failpoints import failpoint
from memory.projects.models import ApiKey
from memory.redaction import redact

log = structlog.get_logger(__name__)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
KEY_REQUIRED_METHODS = frozenset({"POST", "PATCH"})  # PUT and DELETE are idempotent by themselves
_KEY = re.compile(r"[A-Za-z0-9._~:+/=-]{1,255}")
MAX_KEYS = 100_000  # that a client may have stored at a time
KEYS_BETWEEN_COUNTS = 64
MAX_RESPONSE_BYTES = 4 * 1024 * 1024  # larger answers are not kept for a replay
_KEPT_HEADERS = ("Content-Type", "Location", "ETag")

Handler: TypeAlias = Callable[..., HttpResponse]


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotentRequest:
    """A mutating request under a key: whose it is, and what makes it the same or another one."""

    api_key: ApiKey
    key: str
    method: str
    route: str
    canonical: bytes
    body: Any

    @property
    def lock_number(self) -> int:
        """Number of the advisory lock. Two keys share one by chance in 2^64, and then one caller waits a second."""
        scope = f"idempotency\n{self.api_key.project_id}\n{self.api_key.client}\n{self.key}"
        return int.from_bytes(hashlib.sha256(scope.encode()).digest()[:8], "big", signed=True)


class IdempotentMixin:
    """Runs the handler of a mutating method in one transaction, and under `Idempotency-Key` at most once.

    For a view whose `dispatch` calls `self.run(handler, …)`, after authentication, permissions and throttles (A8).
    A handler names what it made with `response.resource_id = row.pk`; erasing that row empties the stored answer.
    """

    def after_commit(self, request: Request, response: HttpResponse) -> HttpResponse:
        """Return what is sent, which may be another response than the stored one. No transaction is open here.

        Called after a success took effect, not for replays: those answer with the stored bytes.
        """
        return response

    def run(self, handler: Handler, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method in SAFE_METHODS:
            return handler(request, *args, **kwargs)
        key = read_idempotency_key(request)
        request.data  # noqa: B018  the body is read before the transaction opens: its sender may be slow
        attempt = None if key is None else _describe(request, key, kwargs)
        with transaction.atomic(durable=True):
            known = None if attempt is None else _find_answer(attempt)
            response = self._execute(handler, request, *args, **kwargs) if known is None else known
            is_success = 200 <= response.status_code < 300
            if not is_success:
                transaction.set_rollback(True)
            elif attempt is not None and known is None:
                _store(attempt, response)
            failpoint("idempotency.before_commit")
        failpoint("idempotency.after_commit")
        return self._conclude(request, response) if is_success and known is None else response

    def _conclude(self, request: Request, response: HttpResponse) -> HttpResponse:
        try:
            return self.after_commit(request, response)
        except Exception:  # whatever failed, the effect is there, and `response` says so
            log.exception("after_commit_failed")
            return response

    def _execute(self, handler: Handler, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Call the handler and render its answer, which may still query."""
        response = handler(request, *args, **kwargs)
        if isinstance(response, Response):
            self.finalize_response(request, response, *args, **kwargs)  # type: ignore[attr-defined]
            response.render()
        return response


def is_answered(request: Request) -> bool:
    """Tell whether a request under a key will be answered from the record, or refused for its key.

    For a view that does what may take long before it lets `run` open the transaction. A record that is about to expire
    is taken for gone: the work is then done once more, and not inside the transaction.
    """
    key = read_idempotency_key(request)
    records = IdempotencyRecord.objects.filter(
        project_id=key_of(request).project_id, client=key_of(request).client, key=key
    )
    return records.filter(expires_at__gt=Now() + timedelta(minutes=1)).exists()


def read_idempotency_key(request: Request) -> str | None:
    """Return the key of a request, in either spelling: `"abc"` (the IETF draft's string) and `abc` are one key.

    The alphabet has neither quotes nor backslashes, so a string with escapes is never valid, and neither are two
    header lines, which the server joins with a comma.
    """
    raw: str | None = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if raw is None:
        if settings.ERL_IDEMPOTENCY_REQUIRED and request.method in KEY_REQUIRED_METHODS:
            raise Refusal(
                ErrorCode.IDEMPOTENCY_KEY_REQUIRED,
                "Send an Idempotency-Key header with a new value, such as a UUID, for every new request.",
            )
        return None
    text = raw.strip(" \t")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if not _KEY.fullmatch(text):
        raise Refusal(
            ErrorCode.IDEMPOTENCY_KEY_INVALID,
            "Send one Idempotency-Key of 1 to 255 letters, digits and . _ ~ : + / = -, with or without double quotes.",
        )
    return text


def _describe(request: Request, key: str, path_arguments: dict[str, Any]) -> IdempotentRequest:
    match = request.resolver_match
    method, route = request.method or "", match.route if match else ""
    return IdempotentRequest(
        api_key=key_of(request),
        key=key,
        method=method,
        route=route,
        canonical=canonical_request(
            method=method,
            route=route,
            arguments=[(name, str(value)) for name, value in path_arguments.items()],
            query=[(name, value) for name, values in request.query_params.lists() for value in values],
            body=request.data,
        ),
        body=request.data,
    )


def _find_answer(attempt: IdempotentRequest) -> HttpResponse | None:
    _lock(attempt)
    failpoint("idempotency.key_taken")
    record = _find_record(attempt)
    return None if record is None else _replay(record, attempt)


def _lock(attempt: IdempotentRequest) -> None:
    """Take the key until the end of the transaction, or refuse. A holder that dies frees it with its connection.

    A statement of its own: one that also read the record would look with a snapshot older than the lock.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [attempt.lock_number])
        if cursor.fetchone() != (True,):
            raise Refusal(
                ErrorCode.IDEMPOTENCY_IN_PROGRESS,
                "A request with this Idempotency-Key is being answered. Send it again in a second.",
                headers={"Retry-After": "1"},
            )


def find_records(project_id: UUID, *, client: str, key: str) -> QuerySet[Any]:
    """Return the record of a client's key, with `is_expired` by the clock of the database."""
    expired = ExpressionWrapper(Q(expires_at__lte=Now()), output_field=BooleanField())
    return IdempotencyRecord.objects.filter(project_id=project_id, client=client, key=key).annotate(is_expired=expired)


def _find_record(attempt: IdempotentRequest) -> IdempotencyRecord | None:
    """Return the record of a key that still counts; one past its time is deleted, and its key is new again."""
    record = find_records(attempt.api_key.project_id, client=attempt.api_key.client, key=attempt.key).first()
    if record is not None and record.is_expired:
        record.delete()
        return None
    return record


def _replay(record: IdempotencyRecord, attempt: IdempotentRequest) -> HttpResponse:
    if not is_same_fingerprint(bytes(record.fingerprint), attempt.canonical):
        raise Refusal(
            ErrorCode.IDEMPOTENCY_KEY_REUSED,
            "This Idempotency-Key belongs to a different request. Use a new key, or repeat that request unchanged.",
        )
    if record.erased_at is not None:
        raise Refusal(ErrorCode.ERASED, "What this request made was erased since. Use a new key to make it again.")
    log.info("request_replayed", original_request_id=record.request_id)
    headers = {**record.headers, "Idempotent-Replayed": "true", "Original-Request-Id": record.request_id}
    response = HttpResponse(bytes(record.body), status=record.status_code, headers=headers)
    if "Content-Type" not in record.headers:
        del response["Content-Type"]
    return response


def _refuse_too_many(attempt: IdempotentRequest) -> None:
    """Turn a client away that stores more keys than it may (A9). Looked at for every 64th key: it costs a scan."""
    if attempt.lock_number % KEYS_BETWEEN_COUNTS:
        return
    held = IdempotencyRecord.objects.filter(project_id=attempt.api_key.project_id, client=attempt.api_key.client)
    if held.order_by("key").values_list("key")[MAX_KEYS : MAX_KEYS + 1]:
        raise Refusal(
            ErrorCode.TOO_MANY_KEYS,
            f"More than {MAX_KEYS} Idempotency-Keys of this client are stored. Leave the key out, or wait until some "
            f"expire; each is kept for {settings.ERL_IDEMPOTENCY_HOURS} hours.",
            headers={"Retry-After": "600"},
        )


def _store(attempt: IdempotentRequest, response: HttpResponse) -> None:
    _refuse_too_many(attempt)
    if len(response.content) > MAX_RESPONSE_BYTES:
        raise Refusal(
            ErrorCode.REQUEST_TOO_LARGE,
            "The answer is too large to be kept under an Idempotency-Key. Nothing was done; ask for less at a time, "
            "or leave the key out.",
        )
    IdempotencyRecord.objects.create(
        project_id=attempt.api_key.project_id,
        client=attempt.api_key.client,
        key=attempt.key,
        fingerprint=fingerprint(attempt.canonical),
        method=attempt.method,
        route=attempt.route,
        request=canonical_json(redact(attempt.body).value),
        status_code=response.status_code,
        headers={name: response[name] for name in _KEPT_HEADERS if name in response},
        body=response.content,
        resource_id=_resource_id(response),
        request_id=structlog.contextvars.get_contextvars().get("request_id", ""),
        expires_at=Now() + timedelta(hours=settings.ERL_IDEMPOTENCY_HOURS),
    )


def _resource_id(response: HttpResponse) -> UUID | None:
    return getattr(response, "resource_id", None)
