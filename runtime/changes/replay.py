"""Differential replay: what a tool does on recorded calls, compared with what was done then."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.changes.journal_host import Recorded, read_effect
from runtime.changes.trials import RefusedCall, run_source
from runtime.definitions.storage import as_definition, find_schemas
from runtime.definitions.values import ToolDefinition
from runtime.models.changes import Change
from runtime.models.effects import Effect
from runtime.models.tools import ToolKind, ToolRevision
from runtime.sandbox import SharedSeconds
from runtime.tools.catalogue import core_tools

MOST_CASES = 50
REPLAY_SECONDS = 20.0  # for all cases together: a request waits for them
_NO_RESULT = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Arguments of a tool, and the recorded calls that it has to make of them, in their order."""

    arguments: dict[str, Any]
    calls: tuple[Recorded, ...]
    result: Any = _NO_RESULT


@dataclass(kw_only=True, slots=True)
class Replayed:
    """What came of the cases of one tool. `never_called` names what it may call, could change, and never did."""

    cases: int = 0
    calls: int = 0
    differences: list[str] = field(default_factory=list)
    never_called: list[str] = field(default_factory=list)


def replay_tool(change: Change, revision: ToolRevision, *, seconds: SharedSeconds) -> Replayed:
    """Replay a tool on the cases of its change, and on the recorded calls of its name."""
    definition = as_definition(revision)
    cases = [*_read_cases(change, definition), *_find_own_calls(change, definition)][:MOST_CASES]
    schemas = find_schemas(change.agent.project, definition.uses)
    return replay_cases(definition, cases, kinds=_find_kinds(change, definition), schemas=schemas,
                        seconds=seconds)  # fmt: skip


def replay_cases(
    definition: ToolDefinition,
    cases: Sequence[Case],
    *,
    kinds: dict[str, str],
    schemas: dict[str, Any],
    seconds: SharedSeconds | None = None,
) -> Replayed:
    """Run a tool on cases whose calls are answered as they were then, and compare.

    Args:
        seconds: what the calls may take together.
    """
    replayed = Replayed(cases=len(cases))
    seconds = seconds or SharedSeconds(REPLAY_SECONDS)
    called: set[str] = set()
    for case in cases:
        host = _InOrder(case)
        try:
            value = run_source(definition, case.arguments, host, schemas, seconds=seconds)
        except RefusedCall as refusal:
            value = refusal
        if seconds.is_over:
            replayed.differences.append(f"its recorded calls take more than {REPLAY_SECONDS:g} seconds together.")
            break
        called |= host.called
        replayed.calls += host.made
        if difference := host.difference or _compare(definition, case, host, value):
            replayed.differences.append(difference)
    # A tool that is not known here may do anything.
    writes = [name for name in definition.uses if kinds.get(name, ToolKind.UNSAFE) != ToolKind.PURE]
    replayed.never_called = [f"{definition.name} never called {name}, which it lists in uses: it" for name in writes
                             if cases and name not in called]  # fmt: skip
    return replayed


class _InOrder:
    """Answers the calls of a case in their order, and notes the first that differs."""

    def __init__(self, case: Case) -> None:
        self._calls = list(case.calls)
        self.made = 0
        self.called: set[str] = set()
        self.difference = ""

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> Any:
        self.called.add(tool)
        if self.made >= len(self._calls):
            self.difference = self.difference or f"it also calls {tool} with {_short(arguments)}, which was not called."
            raise RefusedCall("The recorded run did not make this call.")
        wanted = self._calls[self.made]
        self.made += 1
        if tool != wanted.tool:
            self.difference = self.difference or f"it calls {tool} with {_short(arguments)} instead of {wanted.tool}."
            raise RefusedCall("The recorded run made another call.")
        if arguments != wanted.arguments:
            self.difference = self.difference or (
                f"it calls {tool} with {_short(arguments)} instead of {_short(wanted.arguments)}."
            )
            raise RefusedCall("The recorded run made this call with other arguments.")
        if wanted.error:
            raise RefusedCall(wanted.error)
        return wanted.value

    @property
    def left(self) -> list[Recorded]:
        return self._calls[self.made :]


def _compare(definition: ToolDefinition, case: Case, host: _InOrder, value: Any) -> str:
    # Where the last call failed then, the tool may have ended with it.
    failed_then = bool(case.calls) and bool(case.calls[host.made - 1].error) if host.made else False
    if isinstance(value, RefusedCall) and not failed_then:
        return f"{definition.name} fails on {_short(case.arguments)}: {value}"
    if host.left and not failed_then:
        return f"it does not call {host.left[0].tool}, which was called."
    if case.result is not _NO_RESULT and not isinstance(value, RefusedCall) and value != case.result:
        return f"it answers {_short(value)} instead of {_short(case.result)}."
    return ""


def _read_cases(change: Change, definition: ToolDefinition) -> list[Case]:
    """Return the cases that were sent along. Calls of other agents, or that do not exist, are no evidence."""
    sent = [row for row in change.evidence.get("cases", []) if row.get("tool") == definition.name]
    ids = {id for row in sent for id in row.get("effects", [])}
    effects = Effect.objects.filter(pk__in=ids, run__agent=change.agent_id, project=change.project_id)
    by_id = {str(row.pk): read_effect(row) for row in effects.select_related("tool_revision")}
    return [
        Case(arguments=row.get("arguments", {}), calls=tuple(by_id[id] for id in row["effects"]))
        for row in sent
        if row.get("effects") and all(id in by_id for id in row["effects"])
    ]


def _find_own_calls(change: Change, definition: ToolDefinition) -> list[Case]:
    """Return recorded calls of the tool that this one replaces, with what it asked of its host."""
    effects = Effect.objects.filter(
        run__agent=change.agent_id, tool=definition.name, status=Effect.Status.SUCCEEDED, parent__isnull=True
    )
    cases = []
    for effect in effects.prefetch_related("children").order_by("-created_at")[:MOST_CASES]:
        calls = sorted(effect.children.all(), key=lambda call: call.index)
        recorded = read_effect(effect)
        cases.append(
            Case(
                arguments=effect.arguments,
                calls=tuple(read_effect(call) for call in calls if call.status != Effect.Status.SUPERSEDED),
                result=recorded.value,
            )
        )
    return cases


def _find_kinds(change: Change, definition: ToolDefinition) -> dict[str, str]:
    # The newest revision of each name counts.
    rows = ToolRevision.objects.filter(project=change.project_id, tool__name__in=definition.uses).order_by("number")
    own = {name: tool.kind for name, tool in core_tools().items() if name in definition.uses}
    return dict(rows.values_list("tool__name", "kind")) | own


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:199]}…"
