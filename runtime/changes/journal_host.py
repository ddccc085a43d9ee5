"""The world of a shadow run: answers from the journal of a recorded run, and nothing else."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from runtime.changes.trials import RefusedCall
from runtime.loop.journal import hash_arguments
from runtime.models.effects import Effect
from runtime.models.runs import Run
from runtime.models.tools import ToolKind, ToolRevision, ToolRuntime
from runtime.tools.catalogue import core_tools

_LEAVES_OUT = (Effect.Status.SUPERSEDED, Effect.Status.CANCELLED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A call of a recorded run, and what came of it.

    `kind` says what the call itself could do: one of a tool in the sandbox does nothing but what the tool called, which
    is recorded too, with the tool's as `parent`. `acts` says what its author made of it: that it is more than a look.
    """

    id: str
    tool: str
    arguments: dict[str, Any]
    kind: str
    value: Any = None
    error: str = ""
    composed: bool = False
    acts: bool = True
    parent: str = ""


@dataclass(kw_only=True)
class JournalHost:
    """Serves each recorded call as often as it was made; one that changes nothing, again and again. It keeps count.

    `served` are the recorded calls that were made again, in the order in which they were, `covered` those that tools
    made then whose answers were served whole. `refused` has the calls of which there is no record; of them, those of
    tools in the sandbox are carried out, for they do nothing by themselves.
    """

    recorded: list[Recorded]
    kinds: dict[str, str]
    served: list[Recorded] = field(default_factory=list)
    covered: list[Recorded] = field(default_factory=list)
    refused: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._waiting: dict[tuple[str, str], list[Recorded]] = defaultdict(list)
        self._last: dict[tuple[str, str], Recorded] = {}
        for effect in self.recorded:
            self._waiting[effect.tool, hash_arguments(effect.arguments)].append(effect)

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> Any:
        key = tool, hash_arguments(arguments)
        if waiting := self._waiting.get(key):
            effect = self._last[key] = waiting.pop(0)
            self._cover(effect)
            self.served.append(effect)
        elif key in self._last and self._last[key].kind == ToolKind.PURE:
            effect = self._last[key]
        else:
            # A tool that is not known here may do anything.
            kind = self.kinds.get(tool, ToolKind.UNSAFE)
            self.refused.append((tool, arguments, kind))
            raise RefusedCall(
                "This is a rehearsal. The recorded run did not make this call, so there is no answer, and nothing was "
                "sent."
            )
        if effect.error:
            raise RefusedCall(effect.error)
        return effect.value

    def note(self, tool: str, arguments: dict[str, Any], *, has_failed: bool) -> None:
        """Keep count of a call that was carried out in the sandbox, whose own calls were answered one by one."""
        waiting = self._waiting.get((tool, hash_arguments(arguments)), [])
        counterpart = next((effect for effect in waiting if bool(effect.error) == has_failed), None)
        if counterpart is not None:
            waiting.remove(counterpart)
            self.served.append(counterpart)
        else:
            self.refused.append((tool, arguments, ToolKind.PURE))

    @property
    def missing(self) -> list[Recorded]:
        """The recorded calls that were not made."""
        return [effect for waiting in self._waiting.values() for effect in waiting]

    @property
    def late(self) -> list[Recorded]:
        """The recorded calls that were made after one which acts and which they came before."""
        order = {effect.id: number for number, effect in enumerate(self.recorded)}
        late, after = [], -1
        for effect in self.served:
            if order[effect.id] < after:
                late.append(effect)
            if effect.acts:
                after = max(after, order[effect.id])
        return late

    def _cover(self, parent: Recorded) -> None:
        """Count what a tool called as made where its answer is served and the tool does not run."""
        for waiting in self._waiting.values():
            # A copy, since calls are removed on the way.
            for child in [child for child in waiting if child.parent == parent.id]:
                waiting.remove(child)
                self.covered.append(child)
                self._cover(child)


def read_journal(run: Run) -> list[Recorded]:
    """Return the calls of a run in the order in which they ended."""
    effects = run.effects.exclude(status__in=_LEAVES_OUT).filter(finished_at__isnull=False)
    return [read_effect(effect) for effect in effects.select_related("tool_revision").order_by("finished_at", "id")]


def read_effect(effect: Effect) -> Recorded:
    """Return a call as it was recorded."""
    succeeded, revision = effect.status == Effect.Status.SUCCEEDED, effect.tool_revision
    return Recorded(
        id=str(effect.pk),
        tool=effect.tool,
        arguments=effect.arguments,
        kind=effect.kind,
        value=_read(effect.result) if succeeded else None,
        error="" if succeeded else effect.error or "It failed.",
        composed=revision is not None and revision.runtime == ToolRuntime.MONTY,
        acts=(effect.kind if revision is None else revision.kind) != ToolKind.PURE,
        parent=str(effect.parent_id or ""),
    )


def find_kinds(run: Run) -> dict[str, str]:
    """Return the kind of each tool of a run's project, and of ERL's own."""
    rows = ToolRevision.objects.filter(project=run.project_id, tool__current__isnull=False).order_by("number")
    return dict(rows.values_list("tool__name", "kind")) | {name: tool.kind for name, tool in core_tools().items()}


def _read(result: str) -> Any:
    try:
        return json.loads(result)
    except ValueError:
        return result
