"""The world of a shadow run: answers from the journal of a recorded run, and nothing else."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from agents.changes.trials import Refused
from agents.loop.journal import hash_arguments
from agents.models.effects import Effect
from agents.models.runs import Run
from agents.models.tools import ToolKind, ToolRevision
from agents.tools.catalogue import core_tools

_LEAVES_OUT = (Effect.Status.SUPERSEDED, Effect.Status.CANCELLED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A call of a recorded run, and what came of it."""

    id: str
    tool: str
    arguments: dict[str, Any]
    kind: str
    value: Any = None
    error: str = ""
    composed: bool = False  # a tool in the sandbox, whose own calls are recorded too


@dataclass(kw_only=True)
class JournalHost:
    """Serves each recorded call as often as it was made; one that changes nothing, again and again. It keeps count."""

    recorded: list[Recorded]
    kinds: dict[str, str]
    served: list[Recorded] = field(default_factory=list)
    refused: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._waiting: dict[tuple[str, str], list[Recorded]] = defaultdict(list)
        self._last: dict[tuple[str, str], Recorded] = {}
        for each in self.recorded:
            self._waiting[each.tool, hash_arguments(each.arguments)].append(each)

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> Any:
        key = tool, hash_arguments(arguments)
        if waiting := self._waiting.get(key):
            found = self._last[key] = waiting.pop(0)
            self.served.append(found)
        elif key in self._last and self._last[key].kind == ToolKind.PURE:
            found = self._last[key]
        else:
            kind = self.kinds.get(tool, ToolKind.UNSAFE)
            self.refused.append((tool, arguments, kind))
            raise Refused(
                "This is a rehearsal. The recorded run did not make this call, so there is no answer, and nothing was "
                "sent."
            )
        if found.error:
            raise Refused(found.error)
        return found.value

    @property
    def missing(self) -> list[Recorded]:
        """The recorded calls that were not made. What a tool in the sandbox made counts, and not the tool."""
        return [each for waiting in self._waiting.values() for each in waiting if not each.composed]


def read_journal(run: Run) -> list[Recorded]:
    """Return the calls of a run in the order in which they ended."""
    effects = run.effects.exclude(status__in=_LEAVES_OUT).filter(finished_at__isnull=False)
    return [read_effect(each) for each in effects.select_related("tool_revision").order_by("finished_at", "id")]


def read_effect(effect: Effect) -> Recorded:
    """Return a call as it was recorded."""
    succeeded = effect.status == Effect.Status.SUCCEEDED
    return Recorded(
        id=str(effect.pk),
        tool=effect.tool,
        arguments=effect.arguments,
        kind=effect.kind,
        value=_read(effect.result) if succeeded else None,
        error="" if succeeded else effect.error or "It failed.",
        composed=effect.tool_revision is not None and effect.tool_revision.runtime == "monty",
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
