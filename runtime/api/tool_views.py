"""Tools over HTTP: store, approve, try."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.pagination import LimitOffset
from memory.api.schema import describe
from memory.errors import InvalidInput
from memory.projects.models import ApiKey, Project
from runtime.api.tool_shapes import (
    ToolAnswer,
    ToolDecisionInput,
    ToolInput,
    ToolPage,
    TryAnswer,
    TryInput,
    describe_tool,
    describe_tools,
)
from runtime.definitions.storage import approve_tool, reject_tool, save_tool
from runtime.errors import InvalidArguments, InvalidDefinition
from runtime.models.tools import Tool, ToolKind, ToolRevision, ToolRuntime
from runtime.sandbox import HostError, SandboxCall, ToolOutcome, read_limits, run_tool
from runtime.schema import bind_arguments, check_arguments

Scope = ApiKey.Scope


class ToolListView(ApiView):
    required_scopes = {"GET": Scope.RUN, "POST": Scope.AGENTS}
    pagination_class = LimitOffset
    queryset = Tool.objects.none()

    @describe(
        "listTools",
        tag="agents",
        summary="List tools",
        description="The tools of the project by name, each with the revision in force and the one stored last.",
        responses=ToolPage,
    )
    def get(self, request: Request) -> Response:
        tools = self.paginate_queryset(_shown(self.project)) or ()
        last = ToolRevision.objects.filter(tool__in=tools).order_by("tool_id", "-number").distinct("tool_id")
        latest = {revision.tool_id: revision for revision in last}
        return self.get_paginated_response(describe_tools(tools, latest))

    @describe(
        "storeTool",
        tag="agents",
        summary="Store a tool",
        description="Its types and examples are checked in the sandbox first. It is proposed: agents can have it once "
        "someone approved it. The same content is the same revision, with the status 200.",
        request=ToolInput,
        responses={
            201: OpenApiResponse(ToolAnswer, "The revision is new."),
            200: OpenApiResponse(ToolAnswer, "A revision with this content exists."),
        },
    )
    def post(self, request: Request) -> Response:
        sent = ToolInput.from_body(self.body)
        if sent.runtime in (ToolRuntime.CORE, ToolRuntime.PYTHON):
            message = "Only monty and http can be sent. Tools of the runtime python are installed with load_agents."
            raise InvalidInput({"/runtime": [message]})
        try:
            stored = save_tool(self.project, sent.as_definition(), by=self.actor)
        except InvalidDefinition as error:
            code = "request" if sent.runtime == ToolRuntime.HTTP else "source"
            places: dict[str, list[str]] = {}
            for fault in error.faults:
                places.setdefault(f"/{fault.member or code}", []).append(fault.message if fault.member else str(fault))
            raise InvalidInput(places) from None
        tool = _shown(self.project).get(pk=stored.revision.tool_id)
        response = Response(describe_tool(tool, stored.revision), status=201 if stored.created else 200)
        response.resource_id = tool.pk  # type: ignore[attr-defined]
        return response


class ToolView(ApiView):
    required_scopes = {"GET": Scope.RUN}

    @describe(
        "getTool",
        tag="agents",
        summary="Read a tool",
        description="The revision in force, and the one stored last.",
        responses=ToolAnswer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        tool = get_object_or_404(_shown(self.project), pk=id)
        return Response(describe_tool(tool, _get_latest(tool)))


class ApproveToolView(ApiView):
    required_scopes = {"POST": Scope.REVIEW}

    @describe(
        "approveTool",
        tag="agents",
        summary="Approve a tool",
        description="Puts the revision with this hash in force. Agents that pin another revision keep it.",
        request=ToolDecisionInput,
        responses=ToolAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        return _decide(self, id, approve_tool)


class RejectToolView(ApiView):
    required_scopes = {"POST": Scope.REVIEW}

    @describe(
        "rejectTool",
        tag="agents",
        summary="Reject a tool",
        description="Decides that the proposed revision with this hash is not put in force. One that was approved "
        "stays.",
        request=ToolDecisionInput,
        responses=ToolAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        return _decide(self, id, reject_tool)


def _decide(view: ApiView, id: UUID, decide: Callable[..., ToolRevision]) -> Response:
    """Decide about the revision whose content was read, and answer with its tool."""
    sent = ToolDecisionInput.from_body(view.body)
    tool = get_object_or_404(_shown(view.project), pk=id)
    # For a hash that no revision has, the service refuses and says why.
    revision = tool.revisions.filter(content_sha256=sent.sha256).first() or _get_latest(tool)
    decide(revision, by=view.actor, sha256=sent.sha256)
    tool = _shown(view.project).get(pk=id)
    return Response(describe_tool(tool, _get_latest(tool)))


class TryToolView(ApiView):
    required_scopes = {"POST": Scope.AGENTS}

    @describe(
        "tryTool",
        tag="agents",
        summary="Try a tool",
        description="Runs the revision stored last in the sandbox, and changes nothing: what it calls is answered from "
        "`host`; in the mode `shadow` tools of kind `pure` that run in the sandbox are called for other names. Other "
        "calls fail in the tool, and `calls` shows them.",
        request=TryInput,
        responses=TryAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = TryInput.from_body(self.body)
        revision = _get_latest(get_object_or_404(_shown(self.project), pk=id))
        if revision.runtime != ToolRuntime.MONTY:
            raise InvalidInput({"/arguments": ["Only tools of the runtime monty can be tried without an effect."]})
        try:
            check_arguments(revision.parameters, sent.arguments)
        except InvalidArguments as error:
            raise InvalidInput({"/arguments": [str(error)]}) from None
        host = {name: _make_host(self.project, name, sent) for name in revision.uses}
        return Response(_describe_outcome(_run(revision, sent.arguments, host)))


def _make_host(project: Project, name: str, sent: TryInput) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        if name in sent.host:
            return sent.host[name]
        if sent.mode == "shadow":
            # Only a tool that calls no others can run without a host.
            tool = _shown(project).filter(name=name, current__kind=ToolKind.PURE, current__uses=[]).first()
            if tool is not None and tool.current is not None and tool.current.runtime == ToolRuntime.MONTY:
                return _call_pure(tool.current, args, kwargs)
        raise HostError(f"{name} is not called when a tool is tried. Say in host what it answers.")

    return answer


def _call_pure(revision: ToolRevision, args: Any, kwargs: Any) -> Any:
    try:
        arguments = bind_arguments(revision.parameters, args, kwargs)
    except InvalidArguments as error:
        raise HostError(str(error)) from None
    outcome = _run(revision, arguments, {})
    if outcome.fault is not None:
        raise HostError(str(outcome.fault))
    return outcome.value


def _run(revision: ToolRevision, arguments: dict[str, Any], host: dict[str, Callable[..., Any]]) -> ToolOutcome:
    call = SandboxCall(
        source=revision.source,
        function=revision.tool.name,
        arguments=arguments,
        frozen_at=timezone.now(),
        seed="try",
        limits=read_limits(revision.limits),
    )
    return run_tool(call, host)


def _describe_outcome(outcome: ToolOutcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "value": outcome.value,
        "error": str(outcome.fault or ""),
        "output": outcome.output,
        "output_is_cut": outcome.output_is_cut,
        "duration_ms": outcome.duration_ms,
        "calls": [
            {
                "name": entry.call.name,
                "args": list(entry.call.args),
                "kwargs": dict(entry.call.kwargs),
                "answer": entry.value,
                "error": entry.error,
            }
            for entry in outcome.journal
        ],
    }


def _get_latest(tool: Tool) -> ToolRevision:
    return tool.revisions.select_related("tool").order_by("-number")[0]


def _shown(project: Project) -> "QuerySet[Tool]":
    return Tool.objects.for_project(project).select_related("current__tool").order_by("name", "id")
