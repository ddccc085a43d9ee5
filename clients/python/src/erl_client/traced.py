"""Runs that a tracer tells span by span: those of open runs, and those of traces without one."""

from dataclasses import dataclass, field
from threading import Lock

from erl_client.client import ERL, AsyncERL
from erl_client.runs import Run, current_run
from erl_client.transcripts.traces import Span

MAX_OPEN_SPANS = 10_000
MAX_SPANS_OF_RUN = 10_000


@dataclass(slots=True)
class _Group:
    """The spans of one run. `root` is the span that ends it, "" where the block of the run does."""

    root: str
    run: Run | None = None
    spans: list[Span] = field(default_factory=list)


class TracedRuns:
    """Gives each span to the open run, or else to the run of its parent. A span without one begins a run.

    Traces in which no model, tool or agent was at work are not recorded. May be used by several threads.
    """

    def __init__(self, erl: ERL | AsyncERL, *, family: str = "", agent: str = "") -> None:
        self._erl = erl
        self._family = family
        self._agent = agent
        self._groups: dict[str, _Group] = {}  # by the ids of spans that are not over
        self._changing = Lock()

    def start(self, span_id: str, parent_id: str) -> None:
        open_run = current_run()
        with self._changing:
            group = self._groups.get(parent_id)
            if open_run is not None and (group is None or group.run is not open_run):
                group = _Group(root="", run=open_run, spans=open_run.spans)
            self._groups[span_id] = group or _Group(root=span_id)
            if len(self._groups) > MAX_OPEN_SPANS:
                self._groups.pop(next(iter(self._groups)))

    def end(self, span: Span, error: BaseException | None = None) -> None:
        with self._changing:
            group = self._groups.pop(span.id, None)
        if group is None:
            return
        if len(group.spans) < MAX_SPANS_OF_RUN:
            group.spans.append(span)
        if group.root == span.id and (group.run or any(span.kind != "other" for span in group.spans)):
            run = group.run or self._erl.begin("", family=self._family, agent=self._agent)
            run.spans = group.spans
            if error is None and span.error:
                run.failure(reason=span.error)
            self._erl.end(run, error)

    async def run_of(self, span_id: str, task: str) -> Run | None:
        """Return the run of a span, with its lessons. The first time it is asked for they are fetched."""
        group = self._groups.get(span_id)
        if group is not None and group.run is None:
            group.run = await self._erl.begin_async(task, family=self._family, agent=self._agent)
        return group.run if group else None
