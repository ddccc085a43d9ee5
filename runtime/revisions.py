"""Make agents and change them: each change is a new revision, and what runs keeps the one it began with."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from memory.blocks.models import Block
from memory.errors import ChangedMeanwhile, InvalidInput
from memory.projects.access import Right, check_right
from memory.projects.actors import Actor, name_actor
from memory.projects.models import ApiKey, Project, ProjectMembership
from memory.releases.models import Release
from memory.review.decisions import add_revision, record_review
from memory.review.models import ReviewDecision
from runtime.errors import NameTaken
from runtime.limits import Compacting, Limits, ModelSettings, usual_output_tokens, written
from runtime.models.agents import Agent, AgentRevision
from runtime.models.runs import Run
from runtime.models.tools import ToolRevision
from runtime.rules import find_faults
from runtime.schema import find_schema_faults
from runtime.tools.catalogue import find_tool_faults

ALWAYS_ALLOW = "always_allow"
DECIDE_CALLS = Right(
    to="decide about calls of agents",
    scope=ApiKey.Scope.APPROVE,
    permissions={ProjectMembership.Role.REVIEWER: "agents.decide_approval"},
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSpec:
    """What a revision says. `tools` and `blocks` are as in `AgentRevision`.

    Without `max_output_tokens`, answers may be as long as is usual for the window and the settings.
    """

    system: str = ""
    model: str = ""
    window_tokens: int = 32_000
    max_output_tokens: int | None = None
    temperature: float | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    blocks: tuple[dict[str, Any], ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    rules: tuple[dict[str, Any], ...] = ()
    limits: Limits = field(default_factory=Limits)
    compaction: Compacting = field(default_factory=Compacting)

    @property
    def output_tokens(self) -> int:
        return self.max_output_tokens or usual_output_tokens(self.window_tokens, self.model_settings)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a revision that says this."""
        columns = {name: getattr(self, name) for name in self.__slots__}
        return columns | {
            "max_output_tokens": self.output_tokens,
            "blocks": list(self.blocks),
            "tools": list(self.tools),
            "rules": list(self.rules),
            "limits": written(self.limits),
            "compaction": self.compaction.model_dump(),
            "model_settings": self.model_settings.model_dump(exclude_defaults=True),
        }

    @property
    def sha256(self) -> str:
        return hash_columns(self.columns())


def hash_columns(columns: dict[str, Any]) -> str:
    """Return the hash of what a revision says."""
    if not columns["model_settings"]:
        # Older revisions were hashed before there were settings.
        columns = {name: value for name, value in columns.items() if name != "model_settings"}
    text = json.dumps(columns, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@transaction.atomic
def create_agent(
    project: Project, *, name: str, spec: AgentSpec, by: Actor, description: str = "", may_allow: bool = False
) -> Agent:
    """Make an agent with its first revision.

    Args:
        may_allow: its rules may allow tools for always, which otherwise only `allow_tool` does.

    Raises:
        NameTaken: another agent of the project has the name.
        InvalidInput: its rules, tools or blocks do not fit together.
    """
    check_spec(project, spec, may_allow=may_allow)
    try:
        # The constraint decides: two requests with one name may come at the same time.
        with transaction.atomic():
            agent = Agent.objects.create(project=project, name=name, description=description, created_by=by.label)
    except IntegrityError as error:
        if "agents_agent_name_unique" not in str(error):
            raise
        raise NameTaken(f"Another agent of the project has the name {name}. Choose another one.") from None
    return _revise(agent, spec, by=by)


@transaction.atomic
def revise_agent(
    agent: Agent, *, spec: AgentSpec, by: Actor, description: str | None = None, may_allow: bool = False
) -> Agent:
    """Make an agent what `spec` says, from its next run on. If it already is, nothing changes.

    Takes `may_allow` and raises InvalidInput as `create_agent` does.
    """
    agent = Agent.objects.select_for_update(of=("self",)).select_related("project", "current").get(pk=agent.pk)
    check_spec(agent.project, spec, before=agent.current, may_allow=may_allow)
    if description is not None and description != agent.description:
        agent.description = description
        agent.save(update_fields=["description"])
    return _revise(agent, spec, by=by)


@transaction.atomic
def allow_tool(agent: Agent, name: str, *, by: Actor, sha256: str = "") -> Agent:
    """Let a tool be called without approval from the agent's next run on, until the agent has another revision of it.

    Args:
        sha256: the hash of the tool that the person read; "" for one of ERL.

    Raises:
        InvalidInput: the agent has no such tool.
        ChangedMeanwhile: the agent has the tool with another content.
        NotAllowed: see `check_right`.
    """
    agent = Agent.objects.select_for_update(of=("self",)).select_related("project", "current").get(pk=agent.pk)
    check_right(DECIDE_CALLS, agent.project, by=by)
    assert agent.current is not None  # every agent has one
    pin = next((tool for tool in agent.current.tools if tool["name"] == name), None)
    if pin is None:
        raise InvalidInput({"/tool": [f"The agent has no tool {name}."]})
    read = (
        ToolRevision.objects.filter(pk=pin["revision"]).values_list("content_sha256", flat=True)
        if "revision" in pin
        else [""]
    )
    if list(read) != [sha256]:
        raise ChangedMeanwhile("The agent has this tool with another content than the one you read. Read it again.")
    rule = {"type": ALWAYS_ALLOW, "tool": name} | ({"revision": pin["revision"]} if "revision" in pin else {})
    spec = spec_of(agent.current)
    if rule in spec.rules:
        return agent
    # The new rule replaces one for an earlier revision of the tool.
    return revise_agent(agent, spec=replace(spec, rules=(*_ask_about(spec.rules, name), rule)), by=by, may_allow=True)


@transaction.atomic
def ask_again(agent: Agent, name: str, *, by: Actor) -> Agent:
    """Ask people again about a tool that was always allowed.

    Raises:
        InvalidInput: it was not.
    """
    agent = Agent.objects.select_for_update(of=("self",)).select_related("project", "current").get(pk=agent.pk)
    assert agent.current is not None  # every agent has one
    spec = spec_of(agent.current)
    rules = tuple(_ask_about(spec.rules, name))
    if len(rules) == len(spec.rules):
        raise InvalidInput({"/tool": ["The agent has no such tool that is always allowed. Load its page again."]})
    return revise_agent(agent, spec=replace(spec, rules=rules), by=by)


def _ask_about(rules: Iterable[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return rules without those that allow a tool."""
    return [item for item in rules if (item["type"], item["tool"]) != (ALWAYS_ALLOW, name)]


def _find_setting_faults(spec: AgentSpec) -> dict[str, list[str]]:
    settings, names = spec.model_settings, [tool["name"] for tool in spec.tools]
    faults = {}
    if settings.tool_choice not in ("auto", "none", "required", *names):
        faults["/model_settings/tool_choice"] = ["Send auto, none, required, or the name of a tool of the agent."]
    if settings.output_schema is not None and (schema_faults := find_schema_faults(settings.output_schema)):
        faults["/model_settings/output_schema"] = schema_faults
    return faults


@transaction.atomic
def archive_agent(agent: Agent, *, by: Actor) -> Agent:
    """Let an agent start no more runs. What it did and remembers stays."""
    name_actor(by)
    Agent.objects.filter(pk=agent.pk, archived_at__isnull=True).update(archived_at=Now())
    agent.refresh_from_db(fields=["archived_at"])
    return agent


def spec_of(revision: AgentRevision) -> AgentSpec:
    """Return what a revision says."""
    columns = {name: getattr(revision, name) for name in AgentSpec.__slots__}
    return AgentSpec(
        **columns
        | {
            "blocks": tuple(revision.blocks),
            "tools": tuple(revision.tools),
            "rules": tuple(revision.rules),
            "limits": Limits.model_validate(revision.limits),
            "compaction": Compacting.model_validate(revision.compaction),
            "model_settings": ModelSettings.model_validate(revision.model_settings),
        }
    )


def _revise(agent: Agent, spec: AgentSpec, *, by: Actor) -> Agent:
    point_at(agent, store_revision(agent, spec, by=by), by=by)
    return agent


def store_revision(agent: Agent, spec: AgentSpec, *, by: Actor) -> AgentRevision:
    """Return the revision of an agent with this content; make it if there is none. The agent stays as it is."""
    revision: AgentRevision | None = agent.revisions.filter(content_sha256=spec.sha256).first()
    if revision is not None:
        return revision
    made: AgentRevision = add_revision(agent, by=by, content_sha256=spec.sha256, **spec.columns())
    return made


def point_at(agent: Agent, revision: AgentRevision, *, by: Actor) -> None:
    """Make a revision the current one of a locked agent, from its next run on."""
    name_actor(by)
    if agent.current_id == revision.pk:
        return
    record_review(agent, revision, ReviewDecision.APPROVE, by=by)
    Agent.objects.filter(pk=agent.pk).update(current=revision)
    agent.current = revision


def deployed_revision(run: Run, release: Release | None) -> AgentRevision:
    """Return the revision that a release on trial names for a run's agent, else the one with which the run began."""
    entry = release.manifest.get("agents", {}).get(str(run.agent_id)) if release is not None else None
    # A resumed run keeps the revision with which it began.
    if entry is None or run.resumes_id is not None:
        return run.revision
    return AgentRevision.objects.get(pk=entry["revision"], agent=run.agent_id)


def _find_block_faults(project: Project, spec: AgentSpec) -> dict[str, list[str]]:
    ids = set(
        map(
            str,
            Block.objects.filter(project=project, pk__in=[entry["block"] for entry in spec.blocks]).values_list(
                "pk", flat=True
            ),
        )
    )
    faults: dict[str, list[str]] = {}
    seen: set[str] = set()
    for index, entry in enumerate(spec.blocks):
        if entry["block"] not in ids:
            faults[f"/blocks/{index}"] = [f"There is no block {entry['block']} in this project."]
        elif entry["label"] in seen:
            faults[f"/blocks/{index}"] = [f"The label {entry['label']} is used twice."]
        seen.add(entry["label"])
    return faults


def check_spec(
    project: Project, spec: AgentSpec, *, before: AgentRevision | None = None, may_allow: bool = False
) -> None:
    """Raise InvalidInput where the rules, tools or blocks of a revision do not fit together.

    Args:
        before: the revision it follows, whose rules that allow calls for always it may keep.
        may_allow: whether it may have new ones.
    """
    faults: dict[str, list[str]] = {}
    if not 0 < spec.output_tokens < spec.window_tokens:
        faults["/max_output_tokens"] = ["The answer has to fit into window_tokens, with room for the prompt."]
    faults |= find_tool_faults(project, spec.tools)
    faults |= _find_block_faults(project, spec)
    faults |= _find_setting_faults(spec)
    faults |= find_faults(spec.rules, tools=[tool["name"] for tool in spec.tools])
    if not faults and not may_allow:
        kept = before.rules if before is not None else []
        for index, rule in enumerate(spec.rules):
            if rule["type"] == ALWAYS_ALLOW and rule not in kept:
                message = "Calls are allowed for always by a person who may decide about them: POST /agents/{id}/allow."
                faults[f"/rules/{index}"] = [message]
    if faults:
        raise InvalidInput(faults)
