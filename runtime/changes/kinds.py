"""What a change changes, and what no change may touch."""

from collections.abc import Iterable

from django.db.models import TextChoices

from runtime.definitions.values import ToolDefinition
from runtime.errors import NeverEvolves
from runtime.models.tools import ToolRevision, ToolRuntime
from runtime.revisions import ALWAYS_ALLOW, AgentSpec
from runtime.tools.catalogue import core_tools


class ChangeKind(TextChoices):
    TOOL = "tool", "A tool of its own"
    PROMPT = "prompt", "The instructions"
    RULES = "rules", "Rules about tools"
    SETTINGS = "settings", "Compaction, the size of answers and how the model is asked"
    HEURISTIC = "heuristic", "Lessons"
    RETRIEVAL = "retrieval", "How many lessons runs are given"


NEVER = {
    "approval_policy": "which calls people approve, and how long they have",
    "guardrail": "the limits of a run, and what rolls a release back",
    "evaluator": "how changes are checked and measured",
    "logging": "what is written down about runs",
    "outcome": "how it is told whether a task was done",
    "code": "ERL's own code and tools",
}
_PARTS = {
    ChangeKind.PROMPT: ("system",),
    ChangeKind.TOOL: ("tools",),
    ChangeKind.RULES: ("rules",),
    ChangeKind.SETTINGS: ("compaction", "window_tokens", "max_output_tokens", "temperature", "model_settings"),
}


def refuse(kind: str) -> NeverEvolves:
    """Return the refusal of a proposal about something that never evolves."""
    return NeverEvolves(
        f"A change cannot be of the kind {kind}: no proposal changes {NEVER[kind]}. A person does that, outside of the "
        f"ladder. Changes may be of the kinds {', '.join(ChangeKind.values)}."
    )


def check_kind(kind: str) -> None:
    """Raise NeverEvolves where a proposal names a kind that never evolves."""
    if kind in NEVER:
        raise refuse(kind)


def find_kinds(base: AgentSpec, target: AgentSpec) -> list[str]:
    """Return the kinds of what differs between two revisions."""
    return [
        kind.value
        for kind, names in _PARTS.items()
        if any(getattr(base, name) != getattr(target, name) for name in names)
    ]


def check_untouched(
    base: AgentSpec, target: AgentSpec, tools: Iterable[tuple[ToolDefinition, ToolRevision | None]]
) -> None:
    """Check, by what a proposal says and not by what it calls itself, that it leaves alone what never evolves.

    Args:
        tools: the tools that come with it, each with the revision that it would replace.

    Raises:
        NeverEvolves: it does not.
    """
    if base.limits.approval_seconds != target.limits.approval_seconds:
        raise refuse("approval_policy")
    if base.limits != target.limits:
        raise refuse("guardrail")
    if _approvals(base) != _approvals(target):
        raise refuse("approval_policy")
    for definition, before in tools:
        if definition.name in core_tools() or definition.runtime != ToolRuntime.MONTY:
            raise refuse("code")
        if before is not None and before.requires_approval and not definition.requires_approval:
            raise refuse("approval_policy")


def _approvals(spec: AgentSpec) -> list[tuple[str, ...]]:
    """Return the rules by which people are asked about calls, or are not."""
    return sorted(
        tuple(str(rule.get(name) or "") for name in ("type", "tool", "when", "revision"))
        for rule in spec.rules
        if rule.get("type") in ("requires_approval", ALWAYS_ALLOW)
    )
