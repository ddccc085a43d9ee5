"""POST /mcp: the Model Context Protocol, for agents whose tools come from MCP servers."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from memory.api.authentication import HasScope
from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.input import read_json_bytes
from memory.api.throttling import ScopeThrottle
from memory.mcp.operations import call_operation
from memory.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_INFO_KEY,
    VERSIONS,
    McpMessage,
    ProtocolError,
    find_id,
    negotiate_version,
    read_message,
)
from memory.mcp.resources import TEMPLATE, list_resources, read_resource
from memory.mcp.tools import BY_NAME, TOOLS
from memory.projects.models import ApiKey
from memory.strict_json import InvalidJson, parse_json

SERVER_INFO = {"name": "erl", "title": "ERL", "version": "1"}  # of the API
CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}}
INSTRUCTIONS = (
    "ERL keeps lessons from earlier runs of agents. Before a task call get_lessons. When the task is over call "
    "record_run with the retrieval_id you were given, and rate_lesson for lessons you followed or set aside. What you "
    "propose waits for a person: nothing here approves a lesson."
)
LISTS_TTL_MS = 300_000  # they differ from key to key, and change with the server's version or the key's scopes
_CODES = {ErrorCode.INVALID_JSON: PARSE_ERROR, ErrorCode.BODY_REQUIRED: INVALID_REQUEST}


class HasKey(BasePermission):
    """Lets any key in: each tool and resource asks for its scope itself."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.auth is not None


class McpView(ApiView):
    """Answers one message with one JSON document. There are no sessions and no streams.

    Refusals of the whole request are JSON-RPC errors with the HTTP status that the API has for them. What a tool
    refuses is its result, with `isError`, since that is what a model gets to read.
    """

    schema = None  # the contract is MCP's
    permission_classes = [HasKey]
    throttle_classes = []

    message_id: str | int | None = None
    message: McpMessage | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        origin = request.META.get("HTTP_ORIGIN")
        if (
            origin is not None and origin != f"{request.scheme}://{request.get_host()}"
        ):  # sent by a page of another site
            raise Refusal(ErrorCode.PERMISSION_DENIED, "Pages of another origin may not send requests here.")
        super().initial(request, *args, **kwargs)

    def read(self, request: HttpRequest) -> dict[str, Any]:
        data = read_json_bytes(request)
        try:
            document = parse_json(data)
        except InvalidJson:
            with suppress(ValueError, RecursionError):  # it is JSON, so the answer can have its id
                self.take(json.loads(data), request.headers)
            raise
        return self.take(document, request.headers).params

    def take(self, document: Any, headers: Mapping[str, str]) -> McpMessage:
        """Remember the message, so that whatever happens is answered in its terms."""
        self.message_id = find_id(document)
        self.message = read_message(document, headers)
        return self.message

    def run(self, handler: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Open no transaction and look for no key: the operation of a tool does both."""
        response: HttpResponse = handler(request, *args, **kwargs)
        return response

    def post(self, request: Request) -> HttpResponse:
        message = self.message
        assert message is not None, "read() has seen to it"
        if message.id is None:
            response = HttpResponse(status=202)
            del response["Content-Type"]
            return response
        match message.method:
            case "initialize" if not message.is_modern:
                return self.answer({"protocolVersion": negotiate_version(message.params)} | _introduction())
            case "ping" if not message.is_modern:
                return self.answer({})
            case "server/discover":
                return self.answer({"supportedVersions": list(VERSIONS)} | _introduction(), ttl_ms=LISTS_TTL_MS)
            case "tools/list":
                tools = [tool.describe() for tool in TOOLS if tool.scope in self.api_key.scopes]
                return self.answer({"tools": tools}, ttl_ms=LISTS_TTL_MS)
            case "tools/call":
                return self.call_tool(request._request, message.params)
            case "resources/templates/list":
                templates = [TEMPLATE] if self.may_read else []
                return self.answer({"resourceTemplates": templates}, ttl_ms=LISTS_TTL_MS)
            case "resources/list":
                found = list_resources(self.project, message.params) if self.may_read else {"resources": []}
                return self.answer(found, ttl_ms=0)
            case "resources/read":
                self.scope = ApiKey.Scope.RETRIEVE
                HasScope().has_permission(request, self)
                ScopeThrottle().allow_request(request, self)
                return self.answer(read_resource(self.project, message.params), ttl_ms=0)
            case _:
                raise ProtocolError(METHOD_NOT_FOUND, "This method is not supported.", status=404)

    @property
    def may_read(self) -> bool:
        return ApiKey.Scope.RETRIEVE in self.api_key.scopes

    def call_tool(self, request: HttpRequest, params: Mapping[str, Any]) -> HttpResponse:
        name, arguments = params.get("name"), params.get("arguments")
        arguments = {} if arguments is None else arguments
        tool = BY_NAME.get(name) if isinstance(name, str) else None
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, f"There is no such tool. The tools are {', '.join(BY_NAME)}.")
        if not isinstance(arguments, dict):
            raise ProtocolError(INVALID_PARAMS, "params.arguments: This should be an object.")
        if fault := tool.find_fault(arguments):
            return self.answer(_refuse(fault))
        values = dict(arguments)
        key = values.pop("idempotency_key", "") or request.META.get("HTTP_IDEMPOTENCY_KEY", "")
        path = tool.path.format(id=UUID(values.pop(tool.subject))) if tool.subject else tool.path
        done = call_operation(request, tool.method, path, values=values, idempotency_key=key)
        self.rate_headers |= done.headers
        if not done.succeeded:
            error = done.body["error"]
            return self.answer(_refuse(tool.explain(error)) | {"structuredContent": {"error": error}})
        shown = tool.show(done)
        return self.answer(_say(shown.text) | {"structuredContent": shown.structured, "isError": False})

    def answer(self, result: dict[str, Any], *, ttl_ms: int | None = None) -> HttpResponse:
        """Answer with a result, in the form of the version that the message speaks."""
        if self.message is not None and self.message.is_modern:
            result = result | {"resultType": "complete", "_meta": {SERVER_INFO_KEY: SERVER_INFO}}
            if ttl_ms is not None:
                result |= {"ttlMs": ttl_ms, "cacheScope": "private"}
        return JsonResponse({"jsonrpc": "2.0", "id": self.message_id, "result": result})

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, ProtocolError):
            return self.answer_error(exc.code, exc.message, status=exc.status, data=exc.data)
        refused: HttpResponse = super().handle_exception(exc)
        error = json.loads(refused.content)["error"]
        if self.message is not None and self.message.method == "tools/call" and self.message_id is not None:
            return self.answer(_refuse(error["message"]) | {"structuredContent": {"error": error}})
        status = refused.status_code
        code = _CODES.get(error["code"], INTERNAL_ERROR if status >= 500 else status)
        response = self.answer_error(code, error["message"], status=status, data=error)
        for header, value in refused.items():
            response.headers.setdefault(header, value)
        return response

    def answer_error(self, code: int, message: str, *, status: int, data: Any) -> HttpResponse:
        if self.message is not None and not self.message.is_modern:
            status = 200  # older clients take any other for a broken connection
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        return JsonResponse({"jsonrpc": "2.0", "id": self.message_id, "error": error}, status=status)


def _introduction() -> dict[str, Any]:
    return {"capabilities": CAPABILITIES, "serverInfo": SERVER_INFO, "instructions": INSTRUCTIONS}


def _say(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def _refuse(text: str) -> dict[str, Any]:
    return _say(text) | {"isError": True}
