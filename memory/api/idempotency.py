"""The same request twice has one effect and one answer (reliability A1–A9).

Effect, key and the bytes of the answer are committed together: a crash before the commit leaves nothing, a crash after
it leaves an answer to repeat.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

import structlog
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now
from django.http import HttpResponse
from django.utils import timezone
from psycopg.errors import DeadlockDetected
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.canonical import canonical_json, canonical_request, fingerprint, is_same_fingerprint
from memory.api.errors import ErrorCode, Refusal
from memory.api.models import IdempotencyRecord
from memory.failpoints import failpoint
from memory.insert_once import insert_once
from memory.projects.models import ApiKey
from memory.redaction import redact

log = structlog.get_logger(__name__)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
KEY_REQUIRED_METHODS = frozenset({"POST", "PATCH"})  # PUT and DELETE are idempotent by themselves
_KEY = re.compile(r"[A-Za-z0-9._~:+/=-]{1,255}")
MAX_KEYS = 100_000  # that a client may have stored at a time
KEYS_BETWEEN_COUNTS = 64
TRIES = 3  # of a transaction that deadlocks; then the client is told to try again
MAX_RESPONSE_BYTES = 4 * 1024 * 1024  # larger answers are not kept for a replay
_KEPT_HEADERS = ("Content-Type", "Location", "ETag")
# Two statements in one message. As one, it would look for the record with a snapshot older than the lock.
_TAKE = """
SELECT pg_try_advisory_xact_lock(%s);
SELECT id, expires_at <= statement_timestamp() FROM memory_idempotencyrecord
WHERE project_id = %s AND client = %s AND key IN (%s, %s)
"""

Handler: TypeAlias = Callable[..., HttpResponse]


class IdempotentMixin:
    """Runs the handler of a mutating method in one transaction, and under `Idempotency-Key` at most once.

    For a view whose `dispatch` calls `self.run(handler, …)`, after authentication, permissions and throttles (A8).
    A handler names what it made with `response.resource_id = row.pk`; erasing that row empties the stored answer. One
    that makes many rows sets `response.keeps_request = False` and answers without their words.
    """

    api_key: ApiKey
    body: dict[str, Any]
    keeps_keys = True  # a view without leaves the header unread

    def after_commit(self, request: Request, response: HttpResponse) -> HttpResponse:
        """Return what is sent, which may be another response than the stored one. No transaction is open here.

        Called after a success took effect, not for replays: those answer with the stored bytes.
        """
        return response

    def replay(self, response: HttpResponse) -> HttpResponse:
        """Return what is sent instead of a stored response whose content may no longer be given."""
        return response

    def run(self, handler: Handler, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method in SAFE_METHODS:
            return handler(request, *args, **kwargs)
        key = read_idempotency_key(request) if self.keeps_keys else None
        keyed = None if key is None else KeyedRequest.of(request, api_key=self.api_key, key=key, body=self.body)
        for tries_left in reversed(range(TRIES)):
            try:
                response, is_new = self._carry_out(keyed, partial(handler, request, *args, **kwargs))
                break
            except OperationalError as error:
                # PostgreSQL took this transaction back so that others, which it stood in the way of, could go on.
                if not isinstance(error.__cause__, DeadlockDetected) or not tries_left:
                    raise
                log.warning("deadlock_tried_again", tries_left=tries_left)
        failpoint("idempotency.after_commit")
        if not is_new:
            return response
        try:
            return self.after_commit(request, response)
        except Exception:  # the effect is there whatever failed, and `response` says so
            log.exception("after_commit_failed")
            return response

    @transaction.atomic(durable=True)
    def _carry_out(self, keyed: "KeyedRequest | None", handle: Callable[[], HttpResponse]) -> tuple[HttpResponse, bool]:
        """Return the answer, and whether it tells of something that was done just now."""
        stored = keyed.find_answer() if keyed else None
        response = handle() if stored is None else self.replay(stored)
        if isinstance(response, Response):  # rendering may still query
            self.finalize_response(self.request, response, *self.args, **self.kwargs)  # type: ignore[attr-defined]
            response.render()
        is_success = 200 <= response.status_code < 300
        if not is_success:
            # A refusal leaves nothing behind, also what its handler wrote before it was noticed.
            transaction.set_rollback(True)
        elif keyed and stored is None:
            keyed.store(response)
        failpoint("idempotency.before_commit")
        return response, is_success and stored is None


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedRequest:
    """A mutating request under a key: whose it is, and what makes it the same as an earlier one."""

    api_key: ApiKey
    key: str
    method: str
    route: str
    canonical: bytes
    canonical_body: bytes
    body: dict[str, Any]
    lock_number: int  # of the advisory lock; two keys share one by chance in 2^64, and then one client waits a second

    @classmethod
    def of(cls, request: Request, *, api_key: ApiKey, key: str, body: dict[str, Any]) -> "KeyedRequest":
        match = request.resolver_match
        method, route, canonical_body = request.method or "", match.route if match else "", canonical_json(body)
        canonical = canonical_request(
            method=method,
            route=route,
            arguments=[(name, str(value)) for name, value in match.kwargs.items()] if match else [],
            query=[(name, value) for name, values in request.query_params.lists() for value in values],
            body=canonical_body,
        )
        # The prefix keeps the number apart from advisory locks that are taken for something else.
        scope = f"idempotency\n{api_key.project_id}\n{api_key.client}\n{key}"
        return cls(
            api_key=api_key,
            key=key,
            method=method,
            route=route,
            canonical=canonical,
            canonical_body=canonical_body,
            body=body,
            lock_number=int.from_bytes(hashlib.sha256(scope.encode()).digest()[:8], "big", signed=True),
        )

    def find_answer(self) -> HttpResponse | None:
        """Take the key until the end of the transaction, and return the answer it was given before, if any.

        A process that dies frees the key with its connection. A record past its time is deleted: its key is new again.

        Raises:
            Refusal: another request holds the key, or used it for something else.
        """
        with connection.cursor() as cursor:
            keys = (self.key, hide_key(self.key))
            cursor.execute(_TAKE, [self.lock_number, self.api_key.project_id, self.api_key.client, *keys])
            if cursor.fetchone() != (True,):
                raise _in_progress()
            failpoint("idempotency.key_taken")
            cursor.nextset()
            row = cursor.fetchone()
        if row is None:
            return None
        record_id, is_expired = row
        if is_expired:
            # Its key would refuse the new record. The lock is ours, so no other request is replaying it.
            IdempotencyRecord.objects.filter(pk=record_id).delete()
            return None
        record: Any = IdempotencyRecord.objects.get(pk=record_id)
        if not is_same_fingerprint(bytes(record.fingerprint), self.canonical):
            raise Refusal(
                ErrorCode.IDEMPOTENCY_KEY_REUSED,
                "This Idempotency-Key belongs to a different request. Use a new key, or repeat that request unchanged.",
            )
        if record.erased_at is not None:
            raise Refusal(
                ErrorCode.ERASED, "The result of this request has been erased since. Use a new key to create it again."
            )
        return _replay(record)

    def store(self, response: HttpResponse) -> None:
        """Keep the answer for repetitions of this request, in the transaction of its effect."""
        # The number is a hash, so this samples one key in 64.
        if self.lock_number % KEYS_BETWEEN_COUNTS == 0:  # counting costs a scan
            _refuse_too_many(self.api_key)
        if len(response.content) > MAX_RESPONSE_BYTES:
            raise Refusal(
                ErrorCode.REQUEST_TOO_LARGE,
                "The answer is too large to be stored for an Idempotency-Key. Nothing was done; ask for less at a "
                "time, or leave the key out.",
            )
        record = IdempotencyRecord(
            project_id=self.api_key.project_id,
            client=self.api_key.client,
            key=self.key,
            fingerprint=fingerprint(self.canonical),
            method=self.method,
            route=self.route,
            request=self._write_redacted() if getattr(response, "keeps_request", True) else b"",
            status_code=response.status_code,
            headers={name: response[name] for name in _KEPT_HEADERS if name in response},
            body=response.content,
            resource_id=getattr(response, "resource_id", None),
            request_id=structlog.contextvars.get_contextvars().get("request_id", ""),
        )
        # The database's clock sets the end, because it also decides when the end has come.
        hours = int(settings.ERL_IDEMPOTENCY_HOURS)
        if not insert_once(record, made={"expires_at": f"statement_timestamp() + make_interval(hours => {hours})"}):
            raise _in_progress()

    def _write_redacted(self) -> bytes:
        redacted = redact(self.body).value
        return self.canonical_body if redacted is self.body else canonical_json(redacted)


def is_answered(request: Request) -> bool:
    """Tell whether a request under a key will be answered from the record, or refused for its key.

    For a view that does slow work before it lets `run` open the transaction. A record that is about to expire counts as
    gone: the work is then done once more, and not inside the transaction.
    """
    api_key: Any = request.auth
    # Longer than a request takes, so that a record found here is still there inside the transaction.
    left = Now() + timedelta(minutes=1)
    return bool(_records(api_key, read_idempotency_key(request)).filter(expires_at__gt=left).exists())


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


def delete_expired_idempotency_records(*, batch_size: int = 1000) -> int:
    """Delete records past their time, one batch per statement, and return how many were deleted.

    Each batch is its own transaction, so that no lock is held for long and a stop in the middle loses nothing. Rows
    that a request is replacing are skipped.
    """
    deleted, count = 0, batch_size
    while count == batch_size:
        with transaction.atomic():
            # The ids are read before the delete, which takes no LIMIT.
            expired = IdempotencyRecord.objects.select_for_update(skip_locked=True).filter(expires_at__lte=Now())
            ids = expired.order_by("expires_at").values_list("pk", flat=True)[:batch_size]
            count, _ = IdempotencyRecord.objects.filter(pk__in=list(ids)).delete()
        deleted += count
    if deleted:
        log.info("idempotency_records_expired", count=deleted)
    return deleted


def forget_stored_answers(resource_ids: Iterable[UUID]) -> None:
    """Empty the stored requests and answers about these rows; a repeated request gets 410."""
    about = IdempotencyRecord.objects.filter(resource_id__in=list(resource_ids), erased_at__isnull=True)
    erase_records(about.only("pk", "key"))


def erase_records(records: Iterable[IdempotencyRecord]) -> None:
    """Empty these records, their keys included: a client may make keys of names. A repeated request gets 410."""
    for record in records:
        IdempotencyRecord.objects.filter(pk=record.pk).update(
            key=hide_key(record.key), body=b"", request=b"", headers={}, erased_at=timezone.now()
        )


def hide_key(key: str) -> str:
    """Return what stands for a key once it is erased: enough to know it again, but not to read it."""
    return f"erased:{hmac.digest(settings.SECRET_KEY.encode(), key.encode(), 'sha256').hex()}"


def _records(api_key: ApiKey, key: str | None) -> Any:
    return IdempotencyRecord.objects.filter(project_id=api_key.project_id, client=api_key.client, key=key)


def _replay(record: IdempotencyRecord) -> HttpResponse:
    log.info("request_replayed", original_request_id=record.request_id)
    headers = {**record.headers, "Idempotent-Replayed": "true", "Original-Request-Id": record.request_id}
    response = HttpResponse(bytes(record.body), status=record.status_code, headers=headers)
    if "Content-Type" not in record.headers:
        # Django adds one by itself, which the first answer did not have.
        del response["Content-Type"]
    response.resource_id = record.resource_id  # type: ignore[attr-defined]
    return response


def _in_progress() -> Refusal:
    return Refusal(
        ErrorCode.IDEMPOTENCY_IN_PROGRESS,
        "A request with this Idempotency-Key is still in progress. Send it again in a second.",
        headers={"Retry-After": "1"},
    )


def _refuse_too_many(api_key: ApiKey) -> None:
    """Refuse a client that stores more keys than it may (A9)."""
    held = IdempotencyRecord.objects.filter(project_id=api_key.project_id, client=api_key.client)
    # In the order of the unique index, and one row beyond the limit: a count would read all of them.
    if held.order_by("key").values_list("key")[MAX_KEYS : MAX_KEYS + 1]:
        raise Refusal(
            ErrorCode.TOO_MANY_KEYS,
            f"More than {MAX_KEYS} Idempotency-Keys of this client are stored. Leave the key out, or wait until some "
            f"expire; each is kept for {settings.ERL_IDEMPOTENCY_HOURS} hours.",
            headers={"Retry-After": "600"},
        )
