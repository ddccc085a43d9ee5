"""Turn the spans and log events that OpenTelemetry exporters send into runs.

A trace comes in several requests, each span when it has ended and the root last. Until then its run is open and keeps
the spans; the steps are read from them again whenever more come. Log events hold the messages of model calls where the
spans do not. They come before or after the spans, so the run of spans without words stays open for them.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import connection, transaction

from memory.database_clock import database_now
from memory.errors import MemoryAppError
from memory.intake.open_runs import check_opener, finish_run
from memory.intake.recording import RunSender, keep_system_prompt, record_trajectory
from memory.intake.serializers import TrajectoryInput
from memory.limits import MAX_CALLED_RUNS, MAX_OPEN_RUN_CHARS, MAX_REQUEST_TRACES, MAX_TRACE_SPANS
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.runs.models import Trajectory
from memory.runs.step_formats import normalise_steps
from memory.runs.tools import read_tools
from memory.strict_json import InvalidJson, check_json
from memory.transcripts.lesson_blocks import NO_TASK, read_task
from memory.transcripts.log import Transcript, UnreadableTranscript
from memory.transcripts.opentelemetry import is_told_by_event, spans_of_otlp
from memory.transcripts.traces import awaits_events, transcripts_of

log = structlog.get_logger(__name__)

MAX_SERVICE_CHARS = 500  # of JSON
NO_WORDS = (
    "its model calls do not say what was asked and answered, so its run stays open for log events, which go to "
    "/otlp/v1/logs. OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT switches them on."
)
_READ_AGAIN = ("task", "steps", "agent", "user_id", "model", "tools", "tokens", "started_at", "ended_at", "metadata")


@dataclass(kw_only=True, slots=True)
class Receipt:
    """How many spans, log records or data points were not taken, and why; a reason alone is a warning."""

    rejected: int = 0
    reason: str = ""

    def reject(self, entries: int, reason: str) -> None:
        self.rejected += entries
        self.reason = self.reason or reason


@transaction.atomic
def receive(project: Project, request: Mapping[str, Any], *, by: Actor, sender: RunSender) -> Receipt:
    """Add the spans or log events of an OTLP request to the runs of their traces.

    Traces without an agent and other log records are passed over. A span that cannot be read is rejected by itself: a
    request of a collector holds those of many agents.
    """
    receipt = Receipt()
    traces = _of_agents(project, _by_trace(request, receipt))
    for number, (trace, entries) in enumerate(sorted(traces.items())):
        if not trace or number >= MAX_REQUEST_TRACES:
            many = f"trace {trace}: send at most {MAX_REQUEST_TRACES} traces in a request; set a smaller batch size."
            receipt.reject(len(entries), many if trace else "What has no trace id cannot be part of a run.")
            continue
        with connection.cursor() as cursor:  # one request at a time adds to a trace
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"otlp {project.pk} {trace}"])
        try:
            with transaction.atomic():
                _add(project, trace, entries, receipt, by=by, sender=sender)
        except (UnreadableTranscript, MemoryAppError) as error:
            receipt.reject(len(entries), f"trace {trace}: {error}")
    return receipt


def _by_trace(request: Mapping[str, Any], receipt: Receipt) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for resource in [*_objects(request.get("resourceSpans")), *_objects(request.get("resourceLogs"))]:
        service = _service(resource.get("resource"))
        spans = [span for scope in _objects(resource.get("scopeSpans")) for span in _objects(scope.get("spans"))]
        records = [r for scope in _objects(resource.get("scopeLogs")) for r in _objects(scope.get("logRecords"))]
        entries = [(span, {"scopeSpans": [{"spans": [span]}]}) for span in spans]
        entries += [(r, {"scopeLogs": [{"logRecords": [r]}]}) for r in records if is_told_by_event(r)]
        for item, scopes in entries:
            entry = {"resource": service, **scopes}
            trace = item.get("traceId")
            if fault := _find_fault(entry):
                receipt.reject(1, f"span {str(item.get('spanId'))[:64]!r} cannot be read. {fault}")
            else:
                found[trace if isinstance(trace, str) else ""].append(entry)
    return found


def _find_fault(entry: dict[str, Any]) -> str:
    """Return why a span cannot be read, "" if it can: read by itself, it takes no other with it."""
    try:
        check_json(entry)
        transcripts_of(spans_of_otlp({"resourceSpans": [entry]}), format="otel")
    except (InvalidJson, UnreadableTranscript) as error:
        return str(error)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        log.warning("span_unreadable", exc_info=True)  # a form that the reader does not expect
        return "It is not in the form of an OTLP span."
    return ""


def _service(resource: Any) -> dict[str, Any]:
    """Return of a resource what is read of it: it is kept with each of its spans, and may be as large as a request."""
    said = _objects(resource.get("attributes")) if isinstance(resource, Mapping) else []
    named = [each for each in said if each.get("key") == "service.name"][:1]
    try:
        check_json(named)
    except InvalidJson:
        return {"attributes": []}
    return {"attributes": named if len(json.dumps(named)) <= MAX_SERVICE_CHARS else []}


def _of_agents(project: Project, traces: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the traces in which an agent works, or of which a run is known: the only ones to look at further."""
    known = Trajectory.objects.for_project(project).filter(external_id__in=[trace for trace in traces if trace])
    wanted = set(known.values_list("external_id", flat=True))
    return {trace: entries for trace, entries in traces.items() if trace in wanted or _has_agent(entries)}


def _has_agent(entries: list[dict[str, Any]]) -> bool:
    return any(span.kind != "other" for span in spans_of_otlp({"resourceSpans": entries}))


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _add(
    project: Project, trace: str, entries: list[dict[str, Any]], receipt: Receipt, *, by: Actor, sender: RunSender
) -> None:
    run = Trajectory.objects.for_project(project).filter(external_id=trace).first()
    if run is not None and not run.is_open:
        receipt.reject(len(entries), f"trace {trace}: its root span arrived earlier, so its run is finished.")
        return
    if run is not None:
        check_opener(run, by=by)
        if not run.spans:
            receipt.reject(len(entries), f"trace {trace}: an open run that is no trace has this external id.")
            return
    redacted = redact({"spans": entries})
    together = _without_repeats([*(run.spans if run else ()), *redacted.value["spans"]])
    if len(together) > MAX_TRACE_SPANS or len(json.dumps(together)) > MAX_OPEN_RUN_CHARS:
        most = f"at most {MAX_TRACE_SPANS:,} spans and {MAX_OPEN_RUN_CHARS:,} characters of a trace are kept."
        receipt.reject(len(entries), f"trace {trace}: {most}")
        return
    spans = spans_of_otlp({"resourceSpans": together})
    whole, *called = transcripts_of(spans, format="otel")
    data = _as_data(whole)
    if run is None:
        run = record_trajectory(project, data={**data, "is_open": True}, by=by, sender=sender).trajectory
    else:
        for name in _READ_AGAIN:
            if name in data:
                setattr(run, name, data[name])
        run.system_prompt = keep_system_prompt(project, data.get("system_prompt", ""))
    counts = run.redactions
    run.redactions = counts | {kind: counts.get(kind, 0) + n for kind, n in redacted.counts.items()}
    run.spans, run.appended_at = together, database_now()
    run.save(update_fields=["spans", "appended_at", "redactions", "system_prompt", *_READ_AGAIN])
    if not any(not span.parent for span in spans):
        return
    if awaits_events(spans):
        receipt.reject(0, f"trace {trace}: {NO_WORDS}")
    else:
        finish_run(run, ending={}, by=by)
        if len(called) > MAX_CALLED_RUNS:
            receipt.reject(
                len(called) - MAX_CALLED_RUNS,
                f"trace {trace}: of the agents that it calls, {MAX_CALLED_RUNS} are recorded.",
            )
        for part in called[:MAX_CALLED_RUNS]:
            record_trajectory(project, data=_as_data(part), by=by, sender=sender)


def _without_repeats(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what an exporter sent again: the span of an id, and the same log record."""
    first: dict[str, dict[str, Any]] = {}
    for entry in entries:
        is_span = "scopeSpans" in entry
        key = str(entry["scopeSpans"][0]["spans"][0].get("spanId")) if is_span else json.dumps(entry, sort_keys=True)
        first.setdefault(key, entry)
    return list(first.values())


def _as_data(transcript: Transcript) -> dict[str, Any]:
    data = TrajectoryInput.from_body({"task": NO_TASK, **transcript.fields()}).run()
    read = {"steps": normalise_steps(data.get("steps")), "tools": read_tools(data.get("tools"))}
    return {**data, **read, "task": read_task(data["task"])}
