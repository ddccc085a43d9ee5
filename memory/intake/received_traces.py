"""Turn the spans that an OpenTelemetry exporter sends into runs.

A trace comes in several requests, each span when it has ended and the root last. Until then its run is open and keeps
the spans; the steps are read from them again whenever more come.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from memory.errors import MemoryAppError
from memory.intake.open_runs import finish_run
from memory.intake.recording import Sender, record_trajectory
from memory.intake.serializers import TrajectoryInput
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.runs.models import Trajectory
from memory.runs.step_formats import normalise_steps
from memory.runs.tools import read_tools
from memory.transcripts.log import Transcript, UnreadableTranscript
from memory.transcripts.opentelemetry import spans_of_otlp
from memory.transcripts.traces import transcripts_of

_READ_AGAIN = ("task", "steps", "agent", "model", "tools", "tokens", "started_at", "ended_at", "metadata")


@dataclass(kw_only=True, slots=True)
class Receipt:
    """How many spans were not taken, and why."""

    rejected: int = 0
    reason: str = ""

    def reject(self, spans: int, reason: str) -> None:
        self.rejected += spans
        self.reason = self.reason or reason


@transaction.atomic
def receive_spans(project: Project, request: Mapping[str, Any], *, by: Actor, sender: Sender) -> Receipt:
    """Add the spans of an OTLP trace request to the runs of their traces; traces without an agent are passed over."""
    receipt = Receipt()
    for trace, entries in sorted(_by_trace(request).items()):
        with connection.cursor() as cursor:  # one request at a time adds to a trace
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"otlp {project.pk} {trace}"])
        try:
            with transaction.atomic():
                _add(project, trace, entries, receipt, by=by, sender=sender)
        except (UnreadableTranscript, MemoryAppError) as error:
            receipt.reject(len(entries), f"trace {trace}: {error}")
    return receipt


def _by_trace(request: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for resource in _objects(request.get("resourceSpans")):
        for scope in _objects(resource.get("scopeSpans")):
            for span in _objects(scope.get("spans")):
                entry = {"resource": resource.get("resource"), "scopeSpans": [{"spans": [span]}]}
                found[str(span.get("traceId", ""))].append(entry)
    return found


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _add(
    project: Project, trace: str, entries: list[dict[str, Any]], receipt: Receipt, *, by: Actor, sender: Sender
) -> None:
    run = Trajectory.objects.for_project(project).filter(external_id=trace).first()
    if run is not None and not run.is_open:
        receipt.reject(len(entries), f"trace {trace}: its root span arrived earlier, so its run is finished.")
        return
    redacted = redact({"spans": entries})
    together = [*(run.spans if run else ()), *redacted.value["spans"]]
    spans = spans_of_otlp({"resourceSpans": together})
    if all(span.kind == "other" for span in spans):
        return
    whole, *called = transcripts_of(spans, format="otel")
    data = _as_data(whole)
    if run is None:
        run = record_trajectory(project, data={**data, "is_open": True}, by=by, sender=sender).trajectory
    else:
        for name in _READ_AGAIN:
            if name in data:
                setattr(run, name, data[name])
    counts = run.redactions
    run.redactions = counts | {kind: counts.get(kind, 0) + n for kind, n in redacted.counts.items()}
    run.spans, run.appended_at = together, timezone.now()
    run.save(update_fields=["spans", "appended_at", "redactions", *_READ_AGAIN])
    if any(not span.parent for span in spans):
        finish_run(run, ending={}, by=by)
        for part in called:
            record_trajectory(project, data=_as_data(part), by=by, sender=sender)


def _as_data(transcript: Transcript) -> dict[str, Any]:
    data = TrajectoryInput.from_body(transcript.fields()).run()
    return {**data, "steps": normalise_steps(data.get("steps")), "tools": read_tools(data.get("tools"))}
