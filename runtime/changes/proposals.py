"""Propose changes. The same proposal is one change, however often it is made."""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction

from memory.errors import InvalidInput
from memory.projects.actors import Actor, name_actor
from runtime.changes.kinds import ChangeKind, check_kind, check_untouched, find_kinds
from runtime.changes.served import find_retuned, find_wordings
from runtime.definitions.checks import find_form_faults
from runtime.definitions.storage import propose_tool
from runtime.definitions.values import ToolDefinition
from runtime.errors import AgentArchived, InvalidDefinition
from runtime.limits import Compacting, ModelSettings, Retrieving
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.models.tools import Tool, ToolRevision
from runtime.revisions import AgentSpec, spec_of, store_revision
from runtime.rules import find_faults

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposedChange:
    """What an agent is to become; None leaves a part as it is.

    `tools` are added to the agent's, or replace those of the same name. `lessons` are ids of proposed ones. `evidence`
    has the recorded calls that a tool stands for, as `{"cases": [{"tool", "arguments", "effects": [ids]}]}`.
    """

    reason: str
    kind: str = ""
    system: str | None = None
    tools: tuple[ToolDefinition, ...] = ()
    without_tools: tuple[str, ...] = ()
    rules: tuple[dict[str, Any], ...] | None = None
    compaction: Compacting | None = None
    max_output_tokens: int | None = None
    model_settings: ModelSettings | None = None
    lessons: tuple[UUID, ...] = ()
    retrieval: Retrieving | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    source: str = Change.Source.PERSON
    parent: Change | None = None

    def content(self) -> dict[str, Any]:
        """Return what a model can propose of it, as JSON, without what stays as it was."""
        texts = {"system": self.system, "rules": self.rules, "max_output_tokens": self.max_output_tokens}
        changed = {name: value for name, value in texts.items() if value is not None}
        return {"tools": [tool.content() for tool in self.tools]} | changed


@transaction.atomic
def propose_change(agent: Agent, proposal: ProposedChange, *, by: Actor) -> Change:
    """Write down a change of an agent, with the revisions that it is made of. Nothing that runs is touched.

    Raises:
        NeverEvolves: it is about something that no proposal may change.
        InvalidInput: it changes nothing, or its parts do not fit together.
        AgentArchived: the agent starts no more runs.
    """
    check_kind(proposal.kind)
    name_actor(by)
    # The changes of an agent are numbered under this lock.
    agent = Agent.objects.select_for_update(of=("self",)).select_related("project", "current").get(pk=agent.pk)
    if agent.archived_at is not None or agent.current is None:
        raise AgentArchived(f"The agent {agent.name} is archived, so nothing of it changes. Choose another one.")
    base = spec_of(agent.current)
    current = _find_current(agent)
    untouched = [(tool, current.get(tool.name)) for tool in proposal.tools]
    check_untouched(base, _without_tools(base, proposal), untouched)
    try:
        stored = {tool.name: propose_tool(agent.project, tool, by=by) for tool in proposal.tools}
    except InvalidDefinition as error:
        raise InvalidInput({"/tools": [str(fault) for fault in error.faults]}) from None
    target = replace(_without_tools(base, proposal), tools=_put_tools(base, proposal, stored))
    lessons = find_wordings(agent.project, proposal.lessons)
    retrieval = find_retuned(agent.project, proposal.retrieval)
    if target == base and not lessons and not retrieval:
        raise InvalidInput({"/": ["The agent is like this already, so there is nothing to change."]})
    if faults := find_faults(target.rules, tools=[tool["name"] for tool in target.tools]):
        raise InvalidInput(faults)
    revision = store_revision(agent, target, by=by) if target != base else agent.current
    new = Change(target=revision, lessons=lessons, retrieval=retrieval, kinds=find_kinds(base, target))
    new.kinds += [ChangeKind.HEURISTIC.value] * bool(lessons) + [ChangeKind.RETRIEVAL.value] * bool(retrieval)
    existing = Change.objects.filter(agent=agent, target=revision, lessons=lessons, retrieval=retrieval).first()
    return existing or _insert(new, agent, proposal, by=by)


def foresee(agent: Agent, proposal: ProposedChange) -> AgentSpec:
    """Return what a proposal would make of an agent, its new tools by name alone. Nothing is stored.

    Raises:
        NeverEvolves, InvalidInput: it cannot be proposed; see `propose_change`.
        InvalidDefinition: a tool is not what can be stored.
    """
    assert agent.current is not None  # every agent has one
    check_kind(proposal.kind)
    base, current = spec_of(agent.current), _find_current(agent)
    target = _without_tools(base, proposal)
    check_untouched(base, target, [(tool, current.get(tool.name)) for tool in proposal.tools])
    if faults := [fault for tool in proposal.tools for fault in find_form_faults(tool)]:
        raise InvalidDefinition(faults)
    kept = [tool for tool in base.tools if tool["name"] not in proposal.without_tools]
    new = [tool.name for tool in proposal.tools if tool.name not in {kept_tool["name"] for kept_tool in kept}]
    target = replace(target, tools=(*kept, *({"name": name} for name in new)))
    if target == base and not proposal.tools:
        raise InvalidInput({"/": ["The agent is like this already, so there is nothing to change."]})
    if unfit := find_faults(target.rules, tools=[tool["name"] for tool in target.tools]):
        raise InvalidInput(unfit)
    return target


def new_tools(change: Change) -> list[ToolRevision]:
    """Return the revisions of tools that a change adds to its agent."""
    before = {tool.get("revision") for tool in change.base.tools}
    ids = [tool["revision"] for tool in change.target.tools if "revision" in tool and tool["revision"] not in before]
    return list(ToolRevision.objects.filter(pk__in=ids).select_related("tool").order_by("tool__name"))


def _insert(change: Change, agent: Agent, proposal: ProposedChange, *, by: Actor) -> Change:
    """Store a change whose content is there."""
    last = agent.changes.order_by("-number").values_list("number", flat=True).first() or 0
    assert agent.current is not None  # by the caller
    # The change that made the agent what it is now.
    made_it = agent.changes.filter(target=agent.current).exclude(base=agent.current)
    change.project, change.agent, change.number, change.base = agent.project, agent, last + 1, agent.current
    change.parent = proposal.parent or made_it.first()
    change.reason, change.evidence = proposal.reason, proposal.evidence
    change.source, change.created_by = proposal.source, by.label
    change.save(force_insert=True)
    log.info("change_proposed", agent=str(agent.pk), number=change.number, kinds=change.kinds, by=by.label)
    return change


def _without_tools(base: AgentSpec, proposal: ProposedChange) -> AgentSpec:
    return replace(
        base,
        system=base.system if proposal.system is None else proposal.system,
        rules=base.rules if proposal.rules is None else proposal.rules,
        compaction=proposal.compaction or base.compaction,
        max_output_tokens=proposal.max_output_tokens or base.max_output_tokens,
        model_settings=proposal.model_settings or base.model_settings,
    )


def _put_tools(
    base: AgentSpec, proposal: ProposedChange, stored: dict[str, ToolRevision]
) -> tuple[dict[str, Any], ...]:
    kept = [tool for tool in base.tools if tool["name"] not in proposal.without_tools]
    names = [tool["name"] for tool in kept]
    pinned = {name: {"name": name, "revision": str(revision.pk)} for name, revision in stored.items()}
    return tuple(
        [pinned.get(tool["name"], tool) for tool in kept] + [pinned[name] for name in pinned if name not in names]
    )


def _find_current(agent: Agent) -> dict[str, ToolRevision]:
    assert agent.current is not None  # by the caller
    pinned = [row["revision"] for row in agent.current.tools if "revision" in row]
    own = {row.tool.name: row for row in ToolRevision.objects.filter(pk__in=pinned).select_related("tool")}
    tools = Tool.objects.filter(project=agent.project_id, current__isnull=False).select_related("current")
    # What the agent has pinned comes before what is in force.
    return {row.name: row.current for row in tools if row.current is not None} | own
