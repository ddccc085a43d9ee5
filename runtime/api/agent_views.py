"""Agents over HTTP."""

from dataclasses import replace
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from memory.api.base import ApiView
from memory.api.pagination import LimitOffset
from memory.api.schema import LOCATION, describe
from memory.projects.models import ApiKey
from runtime.api.shapes import (
    AgentAnswer,
    AgentPage,
    AgentPatch,
    AllowToolInput,
    RevisionPage,
    describe_agent,
    describe_revision,
    spec_members,
)
from runtime.definitions.values import AgentInput, AgentMembers
from runtime.models.agents import Agent, AgentRevision
from runtime.revisions import AgentSpec, allow_tool, archive_agent, create_agent, revise_agent, spec_of
from runtime.tools.catalogue import pin_tools

Scope = ApiKey.Scope


class AgentListView(ApiView):
    required_scopes = {"GET": Scope.RUN, "POST": Scope.AGENTS}
    pagination_class = LimitOffset
    queryset = Agent.objects.none()

    @describe(
        "listAgents",
        tag="agents",
        summary="List agents",
        description="The agents of the project as they are now, the newest first.",
        responses=AgentPage,
    )
    def get(self, request: Request) -> Response:
        return self.answer_rows(Agent.objects.for_project(self.project).select_related("current"), describe_agent)

    @describe(
        "createAgent",
        tag="agents",
        summary="Make an agent",
        description="Rules are checked: an unknown tool, or one that no order of calls could reach, is refused. Tools "
        "of the project are pinned as they are now.",
        request=AgentInput,
        responses={201: OpenApiResponse(AgentAnswer, "It is made.")},
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        sent = AgentInput.from_body(self.body)
        spec = read_spec(self, AgentSpec(), sent)
        agent = create_agent(self.project, name=sent.name, spec=spec, by=self.actor, description=sent.description)
        location = reverse("agents_api:agent", args=[agent.pk])
        agent = get_agent(self, agent.pk)
        return Response(describe_agent(agent), status=201, headers={"Location": location})


class AgentView(ApiView):
    required_scopes = {"GET": Scope.RUN, "PATCH": Scope.AGENTS, "DELETE": Scope.AGENTS}

    @describe(
        "getAgent",
        tag="agents",
        summary="Read an agent",
        description="As it is now, with the revision that new runs pin.",
        responses=AgentAnswer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(describe_agent(get_agent(self, id)))

    @describe(
        "changeAgent",
        tag="agents",
        summary="Change an agent",
        description="Makes a revision that its next run pins; runs that go on keep theirs. What is left out stays.",
        request=AgentPatch,
        responses=AgentAnswer,
    )
    def patch(self, request: Request, id: UUID) -> Response:
        sent, agent = AgentPatch.from_body(self.body), get_agent(self, id)
        assert agent.current is not None  # every agent has one
        description = sent.description if "description" in sent.model_fields_set else None
        spec = read_spec(self, spec_of(agent.current), sent)
        revise_agent(agent, spec=spec, by=self.actor, description=description)
        return Response(describe_agent(get_agent(self, id)))

    @describe(
        "archiveAgent",
        tag="agents",
        summary="Archive an agent",
        description="It starts no more runs. Its runs, conversations and memory stay.",
        responses={204: OpenApiResponse(description="It is archived.")},
    )
    def delete(self, request: Request, id: UUID) -> Response:
        archive_agent(get_agent(self, id), by=self.actor)
        return Response(status=204)


class AllowToolView(ApiView):
    required_scopes = {"POST": Scope.APPROVE}

    @describe(
        "allowTool",
        tag="agents",
        summary="Always allow a tool",
        description="Makes a revision of the agent in which calls of this tool wait for no approval, until the agent "
        "has another revision of the tool. It holds from the next run on; calls that wait are still decided. "
        "To be asked again, change the agent to have its rules without this one.",
        request=AllowToolInput,
        responses=AgentAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = AllowToolInput.from_body(self.body)
        allow_tool(get_agent(self, id), sent.tool, by=self.actor, sha256=sent.sha256 or "")
        return Response(describe_agent(get_agent(self, id)))


class AgentRevisionListView(ApiView):
    required_scopes = {"GET": Scope.RUN}
    pagination_class = LimitOffset
    queryset = AgentRevision.objects.none()

    @describe(
        "listAgentRevisions",
        tag="agents",
        summary="List what an agent was",
        description="Every revision, the newest first.",
        responses=RevisionPage,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return self.answer_rows(get_agent(self, id).revisions.order_by("-number"), describe_revision)


def get_agent(view: ApiView, id: UUID) -> Agent:
    """Return an agent of the caller's project, or answer 404."""
    agent: Agent = get_object_or_404(
        Agent.objects.for_project(view.project).select_related("current", "project"), pk=id
    )
    return agent


def read_spec(view: ApiView, spec: AgentSpec, sent: AgentMembers) -> AgentSpec:
    """Return a spec with what was sent in it."""
    members = spec_members(sent, sent.model_fields_set)
    if "tools" in members:
        members["tools"] = tuple(pin_tools(view.project, sent.tools))
    return replace(spec, **members)
