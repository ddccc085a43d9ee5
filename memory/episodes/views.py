"""What a project remembers, in figures."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.schema import describe
from memory.episodes.serializers import MemorySummaryAnswer
from memory.episodes.summary import summarize_memory
from memory.projects.models import ApiKey
from memory.redaction import redact


class MemorySummaryView(ApiView):
    required_scopes = {"GET": ApiKey.Scope.TRAJECTORIES_READ}
    allowed_query_params = frozenset({"family", "task_id", "agent"})

    @describe(
        "getMemorySummary",
        tag="memory",
        summary="Summarise the memory",
        description="Counts, the score history by task family and agent (the 50 with most runs), and the mistake cards "
        "seen most often. Filter by family or agent to see only theirs.",
        parameters=[
            OpenApiParameter("family", OpenApiTypes.STR, description="Only this task family."),
            OpenApiParameter("task_id", OpenApiTypes.STR, description="An older name of `family`."),
            OpenApiParameter("agent", OpenApiTypes.STR, description="Only this agent."),
        ],
        responses=MemorySummaryAnswer,
    )
    def get(self, request: Request) -> Response:
        asked = {name: redact(value).value for name, value in request.query_params.items()}
        summary = summarize_memory(
            self.project, task_id=asked.get("family", asked.get("task_id")), agent=asked.get("agent")
        )
        return Response(MemorySummaryAnswer.write(summary))
