"""Requests to ERL, and what its answers mean for the sender."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx  # which takes longer to import than a hook to work: only what sends imports it

MAX_BREAKS = 5
LONGEST_BREAK_SECONDS = 120.0
LONG_TIMEOUT_SECONDS = 60.0
PAGE_ROWS = 200


class ERLError(Exception):
    """Something between this agent and ERL went wrong. Only raised with `strict=True`."""


class Unavailable(ERLError):
    """ERL did not answer, or asked to be left alone for a while. The same request may succeed later.

    `retry_after_seconds` is what ERL asked for, None where it did not.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Refused(ERLError):
    """ERL read the request and will not accept it. Sending it again changes nothing."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def is_about_the_key(self) -> bool:
        """Whether the API key is refused, not the request."""
        return self.status in (401, 403)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Destination:
    """Where ERL is and who asks. Has no repr, so that the key cannot end up in a log."""

    url: str
    api_key: str


class Api:
    """The HTTP API of one ERL. May be used by several threads, and after a fork."""

    def __init__(self, destination: Destination, *, timeout_seconds: float) -> None:
        self.destination = destination
        self._timeout_seconds = timeout_seconds
        self._by_process: dict[int, httpx.Client] = {}  # a forked process may not share its parent's sockets
        self._closed = False

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Return the answer to a GET. Raises Unavailable or Refused."""
        return self._send("GET", path, params=query)

    def post(
        self, path: str, body: Mapping[str, Any], *, idempotency_key: str = "", timeout_seconds: float | None = None
    ) -> dict[str, Any]:
        """Return the answer to a POST. Raises Unavailable or Refused."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        timeout = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        return self._send("POST", path, json=body, headers=headers, timeout=timeout)

    def send_patiently(
        self, method: str, path: str, body: Mapping[str, Any], *, unasked: float | None = None, breaks: int = MAX_BREAKS
    ) -> dict[str, Any]:
        """Return the answer to a request that changes nothing when it is repeated: breaks that ERL asks for are taken.

        Where it did not answer at all, the break takes `unasked` seconds; with None there is none.
        """
        try:
            return self._send(method, path, json=body, timeout=LONG_TIMEOUT_SECONDS)
        except Unavailable as error:
            wait = unasked if error.retry_after_seconds is None else error.retry_after_seconds
            if not breaks or wait is None or wait > LONGEST_BREAK_SECONDS:
                raise
        time.sleep(wait)
        return self.send_patiently(method, path, body, unasked=unasked, breaks=breaks - 1)

    def post_patiently(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a POST of what has an id of its own. Breaks that ERL asks for are taken."""
        return self.send_patiently("POST", path, body)

    def find_refusal(self, path: str, body: Mapping[str, Any]) -> Refused | None:
        """Send what has an id of its own, or return why ERL will not have it. Raises where the key is refused."""
        try:
            self.post_patiently(path, body)
        except Refused as error:
            if error.is_about_the_key:
                raise
            return error
        return None

    def list_all(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield all rows of a list, page by page."""
        offset = 0
        while True:
            page = self.get(path, **query, limit=PAGE_ROWS, offset=offset)
            yield from page["results"]
            offset += len(page["results"])
            if not page["results"] or offset >= page["pagination"]["total"]:
                return

    def close(self) -> None:
        self._closed = True
        if http := self._by_process.pop(os.getpid(), None):
            http.close()

    def _send(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        import httpx

        try:
            response = self._client().request(method, f"/api/v1{path}", **request)
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError, KeyError) as error:  # the last two: closed meanwhile
            raise Unavailable(f"ERL at {self.destination.url} cannot be reached: {_describe(error)}") from error
        return _read(response)

    def _client(self) -> "httpx.Client":
        import httpx

        if self._closed:
            raise Unavailable("The client is closed.")
        process = os.getpid()
        if process not in self._by_process:
            http = httpx.Client(
                base_url=self.destination.url,
                headers={"Authorization": f"Bearer {self.destination.api_key}", "User-Agent": "erl-client"},
                timeout=self._timeout_seconds,
            )
            if self._by_process.setdefault(process, http) is not http:  # another thread was faster
                http.close()
        return self._by_process[process]


def _read(response: "httpx.Response") -> dict[str, Any]:
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        answer = None
    if response.is_success and isinstance(answer, dict):
        return answer
    error = answer.get("error") if isinstance(answer, dict) else None
    if response.status_code == 413 and not isinstance(error, dict):  # trying again cannot help
        size = len(response.request.content)
        message = (
            f"A proxy before ERL refuses a request of {size:,} bytes as too large. Let it pass as much as "
            "ERL_API_MAX_REQUEST_BYTES says (in nginx, client_max_body_size)."
        )
        raise Refused(message, status=413, code="request_too_large")
    wait = _seconds(response.headers.get("Retry-After"))
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        what = f"ERL answered {response.status_code}, but not in the form of its API."
        raise Unavailable(what, retry_after_seconds=wait)
    message = f"ERL answered {response.status_code} {error['code']}: {error.get('message', '')}"
    if error.get("retryable") or response.status_code == 429 or response.status_code >= 500:
        raise Unavailable(message, retry_after_seconds=wait)
    raise Refused(message, status=response.status_code, code=error["code"])


def _seconds(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header. ERL sends no dates there."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
