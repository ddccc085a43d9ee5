"""Messages of the Model Context Protocol, of both eras; nothing is remembered from one message to the next.

From 2026-07-28 on every request says in `_meta` which version it speaks, and repeats in headers what it asks for. Older
clients begin with `initialize`; what they send later needs no handshake here.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODERN_VERSION = "2026-07-28"
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSIONS = (MODERN_VERSION, *LEGACY_VERSIONS)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY, SERVER_INFO_KEY = (
    f"{_PREFIX}{name}" for name in ("protocolVersion", "clientCapabilities", "serverInfo")
)
NAMED_BY = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


class ProtocolError(Exception):
    """A message that is not answered with a result, with its JSON-RPC code.

    `status` is the HTTP status for clients of 2026-07-28; older ones take any other than 200 for a broken connection.
    """

    def __init__(self, code: int, message: str, *, status: int = 400, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.data = data


@dataclass(frozen=True, kw_only=True, slots=True)
class McpMessage:
    """A request, or a notification where `id` is None."""

    id: str | int | None
    method: str
    params: dict[str, Any]
    is_modern: bool


def find_id(document: Any) -> str | int | None:
    """Return the id of a message, None where it has none that can be repeated."""
    found = document.get("id") if isinstance(document, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def read_message(document: Any, headers: Mapping[str, str]) -> McpMessage:
    """Read a JSON-RPC message and the headers that came with it.

    Raises:
        ProtocolError: it is none, or its headers say something else, or it speaks an unknown version.
    """
    if not isinstance(document, dict):
        raise ProtocolError(INVALID_REQUEST, "Send one JSON-RPC message at a time: an object, not a batch.")
    method, params = document.get("method"), document.get("params")
    params = {} if params is None else params
    is_request = "id" in document
    if (
        document.get("jsonrpc") != "2.0"
        or not isinstance(method, str)
        or not isinstance(params, dict)
        or (is_request and find_id(document) is None)
    ):
        form = '{"jsonrpc": "2.0", "id": a text or a whole number, "method": a text, "params": an object}'
        raise ProtocolError(INVALID_REQUEST, f"Send a JSON-RPC request: {form}.")
    meta = params.get("_meta")
    stated = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    named = headers.get("MCP-Protocol-Version")
    is_modern = method != "initialize" and (named == MODERN_VERSION or stated not in (None, *LEGACY_VERSIONS))
    if is_request and is_modern:
        _check_envelope(method, params, headers)
    elif named not in (None, *VERSIONS) and method != "initialize":
        raise _unsupported(named)
    return McpMessage(id=find_id(document), method=method, params=params, is_modern=is_modern)


def negotiate_version(params: Mapping[str, Any]) -> str:
    """Return the version to speak with a client that begins with `initialize`: its own, or else the newest such."""
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise ProtocolError(INVALID_PARAMS, "params.protocolVersion: Say which version you speak.")
    return wanted if wanted in LEGACY_VERSIONS else LEGACY_VERSIONS[0]


def _check_envelope(method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    meta = params.get("_meta")
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if not isinstance(meta, dict) or key not in meta]
    if missing or not isinstance(meta, dict):
        raise ProtocolError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}.")
    version = meta[VERSION_KEY]
    name = params.get(NAMED_BY.get(method, ""))
    for header, said, found in (
        ("MCP-Protocol-Version", version, headers.get("MCP-Protocol-Version")),
        ("Mcp-Method", method, headers.get("Mcp-Method")),
        ("Mcp-Name", name, _decode(headers.get("Mcp-Name"))),
    ):
        if said != found and (header != "Mcp-Name" or name is not None):
            raise ProtocolError(HEADER_MISMATCH, f"The header {header} does not match the body.")
    if version != MODERN_VERSION:
        raise _unsupported(version)


def _unsupported(version: Any) -> ProtocolError:
    data = {"supported": list(VERSIONS), "requested": version}
    return ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)


def _decode(header: str | None) -> str | None:
    """Return what a header says; None where it is damaged."""
    encoded = _ENCODED.fullmatch(header or "")
    if encoded is None:
        return header
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
