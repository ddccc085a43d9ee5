"""Follow a run while it goes on."""

import re
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request

from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.schema import describe
from memory.projects.models import ApiKey
from runtime.models.runs import Run
from runtime.streaming.readers import KeyReader
from runtime.streaming.reading import read_events
from runtime.streaming.sse import EventStream

Scope = ApiKey.Scope
# Nine digits fit into the column.
_NUMBER = re.compile(r"[0-9]{1,9}")
_EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Its number in the run, for `Last-Event-ID`. `text` has none."},
        "event": {"type": "string", "description": "Its kind."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}


class RunEventsView(ApiView):
    required_scopes = {"GET": Scope.RUN}
    allowed_query_params = frozenset({"after"})

    @describe(
        "followRun",
        tag="agents",
        summary="Follow a run",
        description="Server-sent events from the run's own rows: `run`, `step`, `message`, `effect`, `approval`, "
        "`compaction`, `cancel`, and `text` with parts of an answer that is on its way. Those are a preview without an "
        "`id`: they are not sent again, nor at all behind a pooler in transaction mode, and the whole answer follows "
        "as a `message`. The stream ends with the run, or when the key is revoked. "
        "Send `Last-Event-ID` to go on after an event; any server of the installation can. 204 says that no more will "
        "come.",
        parameters=[
            OpenApiParameter(
                "Last-Event-ID", OpenApiTypes.STR, OpenApiParameter.HEADER, description="The last event that you have."
            ),
            OpenApiParameter("after", OpenApiTypes.INT, description="The same, for clients that set no header fields."),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(_EVENT, "The events, each of this form."),
            204: OpenApiResponse(description="The run has ended, and you have all its events."),
        },
    )
    def get(self, request: Request, id: UUID) -> HttpResponseBase:
        run: Run = get_object_or_404(Run.objects.for_project(self.project), pk=id)
        after = self._read_position(request)
        if run.is_live and after > run.events_written:
            raise _refuse(request, f"The run has {run.events_written} events so far. Send the id of one that you have.")
        first = read_events(run.pk, after=after)
        if not first and not run.is_live:
            return HttpResponse(status=204)
        reader = KeyReader(key_id=self.api_key.pk, project_id=run.project_id)
        return EventStream(run, after=after, first=first, reader=reader)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Take any Accept header: what is answered is no JSON."""
        return super().perform_content_negotiation(request, force=True)

    def _read_position(self, request: Request) -> int:
        text = _header(request) or request.query_params.get("after", "0")
        if not _NUMBER.fullmatch(text):
            raise _refuse(request, "Send the id of an event, a whole number.")
        return int(text)


def _header(request: Request) -> str:
    return str(request.META.get("HTTP_LAST_EVENT_ID", "")).strip()


def _refuse(request: Request, fault: str) -> Refusal:
    """Return the refusal of a position, under the name by which it was sent."""
    if _header(request):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Last-Event-ID: {fault}", fields={"Last-Event-ID": [fault]})
    return Refusal(ErrorCode.INVALID_QUERY, f"after: {fault}", fields={"after": [fault]})
