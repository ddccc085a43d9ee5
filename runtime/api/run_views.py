"""Runs over HTTP: start, read, cancel, resume, and what they did."""

import time
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from memory.api.base import ApiView
from memory.api.filters import ExactText
from memory.api.pagination import LimitOffset
from memory.api.schema import LOCATION, PREFER, describe
from memory.api.waiting import waiting_place
from memory.projects.models import ApiKey
from reflection.api.views import read_wait
from runtime.api.agent_views import get_agent
from runtime.api.shapes import (
    EffectPage,
    ResumeInput,
    RunAnswer,
    RunInput,
    RunPage,
    StepPage,
    describe_effect,
    describe_run,
    describe_step,
)
from runtime.models.conversations import Conversation, Message
from runtime.models.effects import Effect
from runtime.models.runs import Run, RunStatus, Step
from runtime.progress import read_attempts, with_progress
from runtime.runs import RunRequest, cancel_run, resume_run, start_run

Scope = ApiKey.Scope
POLL_SECONDS = 0.05


class RunFilter(filters.FilterSet):  # type: ignore[misc]
    status = filters.ChoiceFilter(choices=RunStatus.choices, help_text="Its status.")
    conversation = filters.UUIDFilter(field_name="conversation_id", help_text="The conversation it goes on in.")
    user_id = ExactText(field_name="conversation__user_id", help_text="The client's own id of its end user.")

    class Meta:
        model = Run
        fields: ClassVar[list[str]] = []


class AgentRunListView(ApiView):
    required_scopes = {"GET": Scope.RUN, "POST": Scope.RUN}
    pagination_class = LimitOffset
    filterset_class = RunFilter
    queryset = Run.objects.none()

    @describe(
        "listAgentRuns",
        tag="agents",
        summary="List the runs of an agent",
        description="The newest first.",
        filters=True,
        responses=RunPage,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return self.answer_rows(shown_runs(self).filter(agent=get_agent(self, id)), answer_run)

    @describe(
        "startRun",
        tag="agents",
        summary="Let an agent do something",
        description="Writes down the message and queues a run that answers it. Follow `/runs/{id}/events`, or read the "
        "run. With `Prefer: wait=N` the server waits for up to N seconds, at most 30, and answers 200 if the run ended "
        "or waits for a person by then. A conversation has one run at a time: a second one gets 409, "
        "unless `open_run` is `replace`.",
        request=RunInput,
        responses={
            202: OpenApiResponse(RunAnswer, "It is queued; follow `Location`."),
            200: OpenApiResponse(RunAnswer, "It ended, or waits for a person; only with `Prefer: wait=N`."),
        },
        parameters=[LOCATION, PREFER],
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent, agent = RunInput.from_body(self.body), get_agent(self, id)
        conversation = None
        if sent.conversation is not None:
            conversations = Conversation.objects.for_project(self.project).filter(agent=agent)
            conversation = self.get_named(conversations.model, sent.conversation, "conversation")
            conversation = get_object_or_404(conversations, pk=conversation.pk)
        wanted = RunRequest(
            input=sent.input,
            attachments=tuple(attachment.model_dump() for attachment in sent.attachments),
            conversation=conversation,
            task_id=sent.task_id,
            user_id=sent.user_id,
            limits=sent.limits,
            replaces_open=sent.open_run == "replace",
            client=self.api_key.client,
            api_key=self.api_key,
            request_id=self.request_id,
        )
        return accept(self, start_run(agent, wanted, by=self.actor))

    def after_commit(self, request: Request, response: HttpResponse) -> HttpResponse:
        """Hold the answer back for as long as `Prefer: wait=N` allows."""
        return wait_for_run(self, request, response)


class RunView(ApiView):
    required_scopes = {"GET": Scope.RUN}

    @describe(
        "getRun",
        tag="agents",
        summary="Read a run",
        description="Its status, its newest message to the user and what it used.",
        responses=RunAnswer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(answer_run(get_run(self, id)))


class CancelRunView(ApiView):
    required_scopes = {"POST": Scope.RUN}
    body_optional = True

    @describe(
        "cancelRun",
        tag="agents",
        summary="Cancel a run",
        description="It ends before its next action; a call that is under way is waited for. A run that has ended "
        "stays as it is.",
        request=None,
        responses={202: OpenApiResponse(RunAnswer, "It will end.")},
    )
    def post(self, request: Request, id: UUID) -> Response:
        cancel_run(get_run(self, id), by=self.actor)
        return accept(self, get_run(self, id))


class ResumeRunView(ApiView):
    required_scopes = {"POST": Scope.RUN}
    body_optional = True

    @describe(
        "resumeRun",
        tag="agents",
        summary="Go on where a run failed",
        description="Starts a new run in the same conversation and with the same revision of the agent, without a new "
        "message of the user. For runs that failed, used up a limit or were cancelled.",
        request=ResumeInput,
        responses={202: OpenApiResponse(RunAnswer, "It is queued; follow `Location`.")},
        parameters=[LOCATION],
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = ResumeInput.from_body(self.body)
        who = {"client": self.api_key.client, "api_key": self.api_key, "request_id": self.request_id}
        return accept(self, resume_run(get_run(self, id), by=self.actor, limits=sent.limits, request=who))


class StepListView(ApiView):
    required_scopes = {"GET": Scope.RUN}
    pagination_class = LimitOffset
    queryset = Step.objects.none()

    @describe(
        "listSteps",
        tag="agents",
        summary="List the steps of a run",
        description="Each is one question to the model, with the hash of the very prompt and what the answer cost.",
        responses=StepPage,
    )
    def get(self, request: Request, id: UUID) -> Response:
        run = get_run(self, id)
        attempts = read_attempts(run)
        return self.answer_rows(run.steps.order_by("seq"), lambda step: describe_step(step, attempts.get(step.seq, ())))


class EffectListView(ApiView):
    required_scopes = {"GET": Scope.RUN}
    pagination_class = LimitOffset
    queryset = Effect.objects.none()

    @describe(
        "listEffects",
        tag="agents",
        summary="List what a run did",
        description="Every call of a tool in its order, with arguments and result; also those that a rule or a person "
        "did not let start.",
        responses=EffectPage,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return self.answer_rows(get_run(self, id).effects.select_related("step").order_by("id"), describe_effect)


def shown_runs(view: ApiView) -> QuerySet[Any]:
    """Return the runs of the caller's project with their newest reply."""
    replies = Message.objects.filter(run=OuterRef("pk"), is_reply=True).order_by("-seq").values("content")[:1]
    rows = Run.objects.for_project(view.project).select_related("agent", "revision", "release", "conversation")
    return with_progress(rows.annotate(reply=Subquery(replies)))


def get_run(view: ApiView, id: UUID) -> Any:
    """Return a run of the caller's project, or answer 404."""
    return get_object_or_404(shown_runs(view), pk=id)


def answer_run(run: Any) -> dict[str, Any]:
    return describe_run(run, reply=run.reply)


def accept(view: ApiView, run: Run) -> Response:
    """Answer that a run goes on or will."""
    location = reverse("agents_api:run", args=[run.pk])
    body = answer_run(get_run(view, run.pk))
    response = Response(body, status=202, headers={"Location": location})
    response.resource_id = run.pk  # type: ignore[attr-defined]
    return response


def wait_for_run(view: ApiView, request: Request, response: HttpResponse) -> HttpResponse:
    """Wait until a run ended or waits for a person, as long as the client says. Holds no transaction open."""
    seconds = read_wait(request)
    if not seconds:
        return response
    id = UUID(str(response.data["id"]))  # type: ignore[attr-defined]
    going_on = Run.objects.filter(pk=id, status__in=[RunStatus.QUEUED, RunStatus.RUNNING])
    with waiting_place() as may_wait:
        # All places for waiting are taken, so the client reads the run later.
        if not may_wait:
            return response
        ends_at = time.monotonic() + seconds
        while going_on.exists() and (left := ends_at - time.monotonic()) > 0:
            time.sleep(min(POLL_SECONDS, left))
    run = get_run(view, id)
    going = run.status in (RunStatus.QUEUED, RunStatus.RUNNING)
    headers = {"Location": response["Location"], "Preference-Applied": f"wait={seconds}"}
    return Response(answer_run(run), status=202 if going else 200, headers=headers)
