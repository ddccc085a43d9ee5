"""Read what an agent did from the spans of a trace; `opentelemetry` and `tracers` make the spans.

The last model call of a trace has the whole conversation as its input. The spans of tools say what they answered; those
that the conversation does not tell are steps, too, at their time.
"""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .chat import read_instructions
from .log import RESPOND, Json, Log, Transcript, as_text, parse, read_arguments
from .messages import is_message, read_messages, read_or_leave_out

MAX_NAMED_SPANS = 20  # in one entry of `left_out`
_CALL_SUFFIXES = (".run", "._run", ".__call__", ".invoke")  # of methods that frameworks trace
_NOTHING = ("", "[]", "{}", "null")


@dataclass(kw_only=True, slots=True)
class Span:
    """One span of any tracer. `kind` is llm, tool, plan, agent or other; times sort as they are.

    `call_id` is the model's id of a tool call; `system_prompt` is what a model was told, a text or its parts.
    `left_out` says what the tracer did not write into the span.
    `awaits_events` is set where a model's answer may still come as a log event.
    """

    id: str
    trace: str
    parent: str = ""
    name: str = ""
    kind: str = "other"
    started_at: str = ""
    ended_at: str = ""
    input: Json = None
    output: Json = None
    error: str = ""
    model: str = ""
    agent: str = ""
    session: str = ""
    user: str = ""
    tokens: int = 0
    tools: list[Json] = field(default_factory=list)
    system_prompt: Json = None
    metadata: dict[str, Json] = field(default_factory=dict)
    call_id: str = ""
    left_out: list[str] = field(default_factory=list)
    awaits_events: bool = False

    @property
    def has_words(self) -> bool:
        return self.input is not None or self.output is not None


def transcripts_of(spans: Iterable[Span], *, format: str) -> list[Transcript]:
    """Return the run of each trace, in the order of their start; an agent that another agent calls has its own run.

    A span that came twice counts once.
    """
    traces: dict[str, dict[str, Span]] = defaultdict(dict)
    for span in spans:
        traces[span.trace].setdefault(span.id, span)
    ordered = sorted(traces.values(), key=lambda spans: min((s.started_at for s in spans.values()), default=""))
    return [run for trace in ordered for run in _runs_of(trace, format=format)]


def _runs_of(trace: Mapping[str, Span], *, format: str) -> list[Transcript]:
    """Return the run of a trace and those of its sub-agents, each after the run that called it."""
    groups: dict[str, list[Span]] = defaultdict(list)
    callers: dict[str, str] = {}
    above = _agents_above(trace)
    for span in sorted(trace.values(), key=lambda span: (span.started_at, span.id)):
        inside = _agents_around(span, above)
        own = inside[0] if len(inside) > 1 else ""  # the outermost agent's run is the run of the trace
        groups[own].append(span)
        if own:
            callers[own] = inside[1] if len(inside) > 2 else ""
    _join_wrappers(groups, callers)
    runs = []
    for own, spans in sorted(groups.items(), key=lambda group: (group[0] != "", group[1][0].started_at)):
        run = _transcript(spans, format=format)
        if own:
            run.external_id = f"{run.external_id}/{own}"
            run.parent_id = f"{spans[0].trace}/{callers[own]}" if callers[own] else spans[0].trace
        runs.append(run)
    return runs


def _join_wrappers(groups: dict[str, list[Span]], callers: dict[str, str]) -> None:
    """Join the agents of a trace that are one agent: frameworks open several spans around it, one inside the other."""
    working = {own for own, spans in groups.items() if any(span.kind in ("llm", "tool") for span in spans)}
    idle = [own for own in callers if own not in working]
    for own in idle:
        above: dict[str, None] = {}  # the idle agents on the way up to one that works; each is passed once
        at = own
        while at and at not in working and at not in above:
            above[at] = None
            at = callers.get(at, "")
        callers.update(dict.fromkeys(above, "" if at in above else at))
    for own in [own for own in callers if own in working and callers[own] not in working]:
        callers[own] = callers.get(callers[own], "")
    for own in idle:
        groups[callers.pop(own)] += groups.pop(own)
    # The outermost agent without work of its own is the one agent inside it; of several, each has a run.
    inner = [own for own, caller in callers.items() if not caller]
    if len(inner) == 1 and "" not in working:
        groups[""] += groups.pop(inner[0])
        callers.pop(inner[0])
        callers.update({own: "" for own, caller in callers.items() if caller == inner[0]})


def _agents_above(trace: Mapping[str, Span]) -> dict[str, str]:
    """Return the nearest agent above each span, by their ids, "" where there is none. Visits each span once."""
    above: dict[str, str] = {}
    for span in trace.values():
        way = []
        at: Span | None = span
        found = ""
        while at is not None and at.id not in above:
            above[at.id] = ""  # a circle of spans has no agent above it
            way.append(at.id)
            at = trace.get(at.parent)
            if at is not None:
                found = at.id if at.kind == "agent" else above.get(at.id, "")
                at = None if found else at
        above.update(dict.fromkeys(way, found))
    return above


def _agents_around(span: Span, above: Mapping[str, str]) -> list[str]:
    """Return the ids of the agents that a span belongs to, the innermost first, three at most."""
    found: list[str] = []
    at = span.id if span.kind == "agent" else above[span.id]
    while at and at not in found and len(found) < 3:
        found.append(at)
        at = above[at]
    return found


def _transcript(spans: list[Span], *, format: str) -> Transcript:
    log = _TracedConversation()
    spans = _without_nested_repeats(sorted(spans, key=lambda span: (span.started_at, span.id)), log)
    ids = {span.id for span in spans}
    root = next((span for span in spans if span.parent not in ids), spans[0])
    calls = [span for span in spans if span.kind == "llm"]
    models = [span for span in calls if span.has_words]
    last = _longest(models)
    if last is not None:
        log.read(last)
    elif (asked := plain(root.input)) and root.kind != "tool":
        log.hear(asked)
    log.join([span for span in spans if span.kind in ("tool", "plan")])
    if last is None and root.kind != "tool":
        log.say(plain(root.output))
    log.end_turn()
    log.name_what_is_missing(spans, last)
    known = {
        name: getattr(span, name)
        for name in ("agent", "session", "user")
        for span in reversed(spans)
        if getattr(span, name)
    }
    metadata: dict[str, Json] = dict(root.metadata)
    if known.get("session"):
        metadata["session"] = known["session"]
    if root.error:
        metadata["error"] = root.error
    return log.transcript(
        format=format,
        task=next((task for task in (log.task, plain(root.input)) if task.strip() not in _NOTHING), ""),
        external_id=root.trace,
        agent=known.get("agent") or (root.name if root.kind == "agent" else ""),
        user_id=known.get("user", ""),
        model=next((span.model for span in calls if span.model), ""),
        tools=next((span.tools for span in reversed(calls) if span.tools), []),
        started_at=min((s.started_at for s in spans if s.started_at), default=""),
        ended_at=max((s.ended_at for s in spans if s.ended_at), default=""),
        tokens=sum(span.tokens for span in calls) or None,
        metadata=metadata,
    )


def _longest(models: list[Span]) -> Span | None:
    """Return the model call with the longest input, the last of several.

    Later calls of the same conversation repeat what was said before, so it holds it all.
    """
    lengths = [len(as_messages(span.input, "user")) for span in models]
    return models[len(models) - 1 - lengths[::-1].index(max(lengths))] if models else None


def awaits_events(spans: Iterable[Span]) -> bool:
    """Tell whether some model call of a trace does not say yet what was answered: its log events may follow."""
    ordered = sorted(spans, key=lambda span: (span.started_at, span.id))
    return any(span.awaits_events for span in _without_nested_repeats(ordered, Log()))


def _without_nested_repeats(spans: list[Span], log: Log) -> list[Span]:
    """Return the spans in order, each call once: a framework and the library below it may both trace it.

    A tool that another tool calls is not the agent's call, and is named in the log.
    """
    kept: dict[str, Span] = {}
    around: dict[str, str] = {}  # the id of the nearest model or tool call at or above each span
    for span in spans:
        outer = kept.get(around.get(span.parent, ""))
        around[span.id] = outer.id if outer else ""
        if span.kind not in ("llm", "tool") or outer is None or outer.kind != span.kind:
            kept[span.id] = span
            around[span.id] = span.id if span.kind in ("llm", "tool") else around[span.id]
        elif span.kind == "llm" and not outer.has_words:
            kept[outer.id] = replace(outer, kind="other")
            kept[span.id], around[span.id] = span, span.id
        elif span.kind == "llm" or span.name == outer.name:
            kept[outer.id] = replace(
                outer,
                input=span.input if outer.input is None else outer.input,
                output=span.output if outer.output is None else outer.output,
                error=outer.error or span.error,
                call_id=outer.call_id or span.call_id,
                tokens=outer.tokens or span.tokens,
                tools=outer.tools or span.tools,
                system_prompt=outer.system_prompt or span.system_prompt,
            )
        else:
            log.leave_out(f"span {span.id}", f"a call of {span.name} inside the call of {outer.name}")
    return list(kept.values())


class _TracedConversation(Log):
    """The longest conversation of a trace, and the calls that only spans of tools tell."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[str, dict[str, Any]]] = []  # the id of each call with its step
        self._actions: dict[str, Json] = {}  # by the ids of the calls
        self._answer_at = 0  # the number of steps before the last answer
        self._answered_at = ""
        self._reads_answer = False

    def read(self, last: Span) -> None:
        """Read the conversation that a model call holds."""
        read_instructions(self, {"system": last.system_prompt}, f"span {last.id}")
        read_instructions(self, parse(last.input), f"span {last.id}")
        given = as_messages(last.input, "user")
        for number, message in enumerate(given):
            read_or_leave_out(self, message, f"span {last.id}[{number}]")
        self._answer_at, self._answered_at, self._reads_answer = len(self.steps), last.started_at, True
        for number, message in enumerate(as_messages(last.output, "assistant"), start=len(given)):
            read_or_leave_out(self, message, f"span {last.id}[{number}]")
        self.end_turn()

    def call(self, name: str, arguments: Json, *, id: str = "") -> None:
        # Some tracers write all answers of a conversation into one span.
        if self._reads_answer and id and self._actions.get(id) == {"name": name, "arguments": arguments}:
            return
        super().call(name, arguments, id=id)
        self._calls.append((id, self.steps[-1]))
        self._actions[id] = self.steps[-1]["action"]

    def join(self, spans: list[Span]) -> None:
        """Complete the steps from the spans of their tools; calls and plans that no step tells become steps."""
        self.end_turn()
        pairs = self._complete([span for span in spans if span.kind == "tool"])
        began = {id(step): span.started_at for span, step in pairs}
        # Messages have no times: a step is as late as the span of its call, and never before the one above it.
        steps, time = [], ""
        for number, step in enumerate(self.steps):
            time = max(time, began.get(id(step), ""), self._answered_at if number >= self._answer_at else "")
            steps.append((time, step))
        told, joined = self.words(), {span.id for span, _ in pairs}
        for span in [span for span in spans if span.id not in joined]:
            number = len(self.steps)
            if span.kind == "tool":
                self.call(_call_name(span), _arguments(span.input), id=span.id)
                self.result(span.error or as_text(span.output), id=span.id, failed=bool(span.error))
            elif (plan := plain(span.output) or plain(span.input)) not in told:
                self.think(plan)
                self.end_turn()
            steps += [(span.started_at, step) for step in self.steps[number:]]
        self.steps = [step for _, step in sorted(steps, key=lambda entry: entry[0])]
        for number, step in enumerate(self.steps, start=1):
            step["index"] = number

    def _complete(self, spans: list[Span]) -> list[tuple[Span, dict[str, Any]]]:
        """Give the steps what the spans of their tools say, and return these pairs.

        A span belongs to the call with its id, else to the next one of its name and arguments, else of its name.
        """
        pairs: list[tuple[Span, dict[str, Any]]] = []
        for of_call, of_span in _SAME_CALL:
            taken = {id(step) for _, step in pairs}
            free: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
            for call_id, step in self._calls:
                if id(step) not in taken:
                    free[of_call(call_id, step)].append(step)
            rest = []
            for span in spans:
                if (key := of_span(span)) and free[key]:
                    pairs.append((span, free[key].popleft()))
                else:
                    rest.append(span)
            spans = rest
        for span, step in pairs:
            if span.error:
                step["error"] = step["error"] or span.error
            elif not step["observation"] and not step["error"]:
                step["observation"] = as_text(span.output)
        return pairs

    def actions(self) -> list[dict[str, Any]]:
        return [step["action"] for step in self.steps if step["action"]]

    def words(self) -> set[str]:
        """Return what the agent did and said in the steps."""
        actions = self.actions()
        said = [action["arguments"].get("content", "") for action in actions if action["name"] == RESPOND]
        return {*map(_in_order, actions), *map(as_text, said), *(step["thought"] for step in self.steps), ""}

    def name_what_is_missing(self, spans: list[Span], last: Span | None) -> None:
        """Name what a tracer did not write, and the answers of the model that are not among the steps."""
        told = self.words()
        calls = [span for span in spans if span.kind == "llm"]
        silent = [span.id for span in calls if not span.has_words and not span.error]
        elsewhere = [span.id for span in calls if span is not last and not _answer(span) <= told]
        for ids, what in (
            (silent, "the words of a model call, which its tracer did not record"),
            (elsewhere, "what the model answered there is not, or not all, in the longest conversation of the trace"),
        ):
            if ids:
                more = f" and {len(ids) - MAX_NAMED_SPANS} more" if len(ids) > MAX_NAMED_SPANS else ""
                self.leave_out(f"span {', '.join(ids[:MAX_NAMED_SPANS])}{more}", what)
        for span in spans:
            if span is last or span.kind != "llm":
                self.left_out += [f"span {span.id}: {what}" for what in span.left_out]


def _answer(span: Span) -> set[str]:
    """Return what the model did and said in a call."""
    log = _TracedConversation()
    for message in as_messages(span.output, "assistant"):
        read_or_leave_out(log, message, "")
    log.end_turn()
    return log.words() - {_in_order(action) for action in log.actions() if action["name"] == RESPOND}


def _call_name(span: Span) -> str:
    """Return the name of a tool, without that of the method which a framework traced."""
    return next((span.name.removesuffix(end) for end in _CALL_SUFFIXES if span.name.endswith(end)), span.name) or "tool"


_SAME_CALL: tuple[tuple[Callable[[str, dict[str, Any]], str], Callable[[Span], str]], ...] = (
    (lambda id, step: id, lambda span: span.call_id),
    (
        lambda id, step: _in_order(step["action"]),
        lambda span: _in_order({"name": _call_name(span), "arguments": _arguments(span.input)}),
    ),
    (lambda id, step: step["action"]["name"], lambda span: "" if span.call_id else _call_name(span)),
)


def _arguments(value: Json) -> dict[str, Json]:
    """Return the arguments of a tool's span: a value that is no object is kept as `input`."""
    value = unwrap(value)
    return {"input": value} if isinstance(value, int | float) else read_arguments(value, "")


def _in_order(value: Json) -> str:
    """Return a text that is equal for equal values."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return ""


def as_messages(value: Json, role: str) -> list[Json]:
    """Return the messages in the input or output of a model call, in whatever wrapping its tracer puts them."""
    value = parse(value)
    if isinstance(value, Mapping):
        for member in ("messages", "input", "output", "choices", "generations", "message", "content", "kwargs"):
            if member == "content" and not isinstance(value.get("content"), list):
                continue
            if member in value and not is_message(value):
                return as_messages(value[member], role)
        return [value] if is_message(value) else [{"role": role, "content": as_text(value)}]
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], list):  # LangSmith: a batch of one
            return as_messages(value[0], role)
        found: list[Json] = []
        for item in value:
            item = parse(item)
            if is_message(item) or (isinstance(item, Mapping) and isinstance(item.get("role"), str)):
                found.append(item)
            elif isinstance(item, Mapping) and "message" in item:
                found.extend(as_messages(item["message"], role))
            elif isinstance(item, Mapping | list):
                found.extend(as_messages(item, role))
            elif item is not None:
                found.append({"role": role, "content": as_text(item)})
        return found
    return [] if value in (None, "") else [{"role": role, "content": as_text(value)}]


def unwrap(value: Json) -> Json:
    value = parse(value)
    if isinstance(value, Mapping) and set(value) == {"input"}:
        inner = parse(value["input"])
        return inner if isinstance(inner, Mapping) else value
    return value


def plain(value: Json) -> str:
    """Return what a person reads in the input or output of a run."""
    value = parse(value)
    if isinstance(value, Mapping):
        for member in (
            "input",
            "question",
            "task",
            "query",
            "prompt",
            "output",
            "answer",
            "result",
            "content",
            "messages",
        ):
            if value.get(member):
                return plain(value[member])
    if isinstance(value, list) and value and all(is_message(item) for item in value):
        log = _TracedConversation()
        read_messages(log, value, "messages")
        log.end_turn()
        answers = [action["arguments"]["content"] for action in log.actions() if action["name"] == RESPOND]
        results = [step["observation"] for step in log.steps[-1:]]
        return next(filter(None, [log.task, *answers, *results]), "")
    return as_text(value)


def read_object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def read_list(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list) else []


def read_objects(value: Json) -> list[Mapping[str, Json]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
