"""Tools that are one request to a service: what they may say, and the call.

The rules of egress hold (memory/egress.py): https, public addresses or hosts that the operator named, no redirects, and
bounds on time and size. Keys of services are in ERL_TOOL_SECRETS, each for one host, and a tool only names them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

import httpx
from django.conf import settings
from pydantic import Field, ValidationError

from memory.api.input import Input
from memory.connections import BoundedTransport, deadline
from memory.egress import find_project_url_fault
from memory.errors import MemoryAppError
from memory.strict_json import InvalidJson, parse_json
from reflection.webhooks.transport import CheckedBackend, DeliveryFailed
from runtime.errors import Fault, InvalidArguments, InvalidDefinition
from runtime.schema import check_arguments

MAX_ANSWER_BYTES = 1024 * 1024
MAX_SECONDS = 60.0
CONNECT_SECONDS = 5.0
_PLACE = re.compile(r"\{(\w*)\}")
_HEADER = r"^[A-Za-z0-9][A-Za-z0-9-]{0,99}$"
# Overloaded, too early, or still busy with the same request
_MAY_PASS = frozenset({409, 425, 429, 500, 502, 503, 504})
# Set by the request itself, or by the loop
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key", "content-type"})
Header = Annotated[str, Field(pattern=_HEADER)]


class HttpRequest(Input):
    """What a tool sends. Arguments that the URL does not name go into the body; of GET and DELETE, into the query."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    url: Annotated[str, Field(max_length=2_000, description="With {argument} in its path or query.")]
    headers: Annotated[dict[Header, Annotated[str, Field(max_length=1_000)]], Field(max_length=20)] = {}
    secret_headers: Annotated[
        dict[Header, Annotated[str, Field(max_length=100)]],
        Field(max_length=5, description="Names of secrets in ERL_TOOL_SECRETS."),
    ] = {}
    seconds: Annotated[float, Field(gt=0, le=MAX_SECONDS, strict=False)] = 10.0
    max_bytes: Annotated[int, Field(gt=0, le=MAX_ANSWER_BYTES)] = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpAnswer:
    """What the service answered."""

    status: int
    value: Any  # JSON, or its text


class RequestFailed(MemoryAppError):
    """No answer came, or none that confirms the request.

    `is_certain` tells whether the service cannot have acted; otherwise it may have. `may_pass` tells whether the same
    request may be answered a moment later.
    """

    def __init__(self, message: str, *, is_certain: bool, may_pass: bool = False) -> None:
        super().__init__(message)
        self.is_certain = is_certain
        self.may_pass = may_pass


def read_request(stored: Mapping[str, Any], parameters: Mapping[str, Any]) -> HttpRequest:
    """Return what a tool sends, or raise InvalidDefinition with what is wrong with it."""
    try:
        request = HttpRequest.model_validate(dict(stored))
    except ValidationError as error:
        raise InvalidDefinition(
            [Fault(f"request/{'/'.join(map(str, entry['loc']))}: {entry['msg']}.") for entry in error.errors()]
        ) from None
    if faults := _find_faults(request, parameters):
        raise InvalidDefinition([Fault(fault) for fault in faults])
    return request


def _find_faults(request: HttpRequest, parameters: Mapping[str, Any]) -> list[str]:
    # A letter stands for each argument, so that the rest can be checked as a URL.
    if fault := find_project_url_fault(_PLACE.sub("x", request.url)):
        return [f"request/url: {fault}"]
    head = request.url.partition("://")[2]
    host = re.split(r"[/?#]", head, maxsplit=1)[0]
    if "{" in host or "#" in request.url:
        return ["request/url: Arguments stand in the path or the query, and there is no fragment."]
    properties, required = parameters.get("properties", {}), parameters.get("required", [])
    placeholders = _PLACE.findall(request.url)
    faults = [f"request/url: {name!r} is no argument." for name in placeholders if name not in properties]
    faults += [f"request/url: {name} has to be a required argument." for name in placeholders if name not in required]
    for name in [*request.headers, *request.secret_headers]:
        if name.lower() in _OURS:
            faults.append(f"request/headers: {name} is set by ERL.")
    faults += [
        f"request/headers: {name} holds a character that no header can have."
        for name, value in request.headers.items()
        if not value.isprintable() or not value.isascii()
    ]
    for secret in request.secret_headers.values():
        if fault := _find_secret_fault(secret, request.url):
            faults.append(f"request/secret_headers: {fault}")
    return faults


def _find_secret_fault(name: str, url: str) -> str:
    secret = settings.ERL_TOOL_SECRETS.get(name)
    if secret is None:
        return f"The operator has set no secret {name!r} in ERL_TOOL_SECRETS."
    if secret["host"] != (urlsplit(_PLACE.sub("x", url)).hostname or "").rstrip("."):
        return f"The secret {name!r} is for another host."
    return ""


def send_request(
    request: HttpRequest, parameters: Mapping[str, Any], arguments: Mapping[str, Any], *, idempotency_key: str = ""
) -> HttpAnswer:
    """Call a service.

    Args:
        idempotency_key: of a tool of kind `idempotent`, the id of the effect; sent in the header Idempotency-Key.

    Raises:
        InvalidArguments: they do not fit the schema.
        RequestFailed: no answer with a status of 2xx came.
    """
    check_arguments(parameters, arguments)
    url, others = _fill(request.url, arguments)
    # Checked again: the arguments are part of the URL now, and the operator may have changed the secrets.
    if fault := find_project_url_fault(url) or next(
        filter(None, (_find_secret_fault(name, url) for name in request.secret_headers.values())), ""
    ):
        raise RequestFailed(fault, is_certain=True)
    # Uncompressed, or a small body could unfold into a huge one.
    headers = {"user-agent": "erl", "accept": "application/json", "accept-encoding": "identity", **request.headers}
    headers |= {name: settings.ERL_TOOL_SECRETS[secret]["value"] for name, secret in request.secret_headers.items()}
    if idempotency_key:
        headers["idempotency-key"] = idempotency_key
    has_body = request.method in ("POST", "PUT", "PATCH")
    body = json.dumps(others).encode() if has_body else None
    if has_body:
        headers["content-type"] = "application/json"
    params = None if has_body or not others else {name: _write(value) for name, value in others.items()}
    return _exchange(request, url, headers=headers, body=body, params=params)


def _exchange(
    request: HttpRequest, url: str, *, headers: dict[str, str], body: bytes | None, params: Any
) -> HttpAnswer:
    client = httpx.Client(
        transport=BoundedTransport(backend=CheckedBackend()),
        follow_redirects=False,
        # A proxy that ERL was not told of would bypass the rules of egress.
        trust_env=False,
        timeout=httpx.Timeout(request.seconds, connect=min(CONNECT_SECONDS, request.seconds)),
    )
    try:
        with (
            client,
            # httpx limits each read by itself; the deadline stops a service that sends byte by byte.
            deadline(request.seconds),
            client.stream(request.method, url, content=body, headers=headers, params=params) as response,
        ):
            status = response.status_code
            content, is_whole = _read(response, request.max_bytes)
    except DeliveryFailed as error:  # the address may not be used
        raise RequestFailed(str(error), is_certain=True) from error
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        message = f"The service cannot be reached ({type(error).__name__})."
        raise RequestFailed(message, is_certain=True, may_pass=True) from error
    except httpx.TimeoutException as error:
        message = f"No answer within {request.seconds:g} seconds. It may have happened all the same."
        raise RequestFailed(message, is_certain=False, may_pass=True) from error
    except (httpx.TransportError, httpx.InvalidURL, OSError) as error:
        message = f"The connection failed ({type(error).__name__}). It may have happened all the same."
        raise RequestFailed(message, is_certain=False, may_pass=True) from error
    if 300 <= status < 400:
        # 307 and 308 send the same request elsewhere. The others are also what follows a request that was carried out.
        message = f"The service answered {status}, a redirect, which is not followed."
        raise RequestFailed(message, is_certain=status in (307, 308))
    if not 200 <= status < 300:
        message = content.decode(errors="replace")[:500].replace("\x00", "")
        # With 4xx the service refused. With 5xx it may have acted before it failed.
        is_certain, may_pass = 400 <= status < 500, status in _MAY_PASS
        raise RequestFailed(f"The service answered {status}: {message}", is_certain=is_certain, may_pass=may_pass)
    if not is_whole:  # its status says that it was done
        message = f"[The service answered {status} with more than {request.max_bytes:,} bytes. The rest was not read.]"
        return HttpAnswer(status=status, value=f"{content.decode(errors='replace')}\n{message}".replace("\x00", ""))
    return HttpAnswer(status=status, value=_parse(content))


def _fill(template: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the URL with its arguments, and the other arguments. A segment of the path cannot become another one."""
    placeholders = set(_PLACE.findall(template))
    for name in placeholders:
        # `quote` leaves dots as they are, and `..` would lead out of the path.
        if set(_write(arguments[name])) <= {"."}:
            raise InvalidArguments(f"{name} cannot be empty or made of dots alone: it is a part of a path.")
    url = _PLACE.sub(lambda match: quote(_write(arguments[match[1]]), safe=""), template)
    return url, {name: value for name, value in arguments.items() if name not in placeholders}


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _read(response: httpx.Response, most: int) -> tuple[bytes, bool]:
    """Return the content, and whether it is whole: its status says what happened, however long it is."""
    content = bytearray()
    for chunk in response.iter_raw():
        content += chunk
        if len(content) > most:
            return bytes(content[:most]), False
    return bytes(content), True


def _parse(content: bytes) -> Any:
    try:
        return parse_json(content)
    except InvalidJson:
        return content.decode(errors="replace").replace("\x00", "")
