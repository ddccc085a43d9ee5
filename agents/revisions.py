"""Make agents and change them: each change is a new revision, and what runs keeps the one it began with."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from agents.errors import NameTaken
from agents.limits import Compacting, Limits, written
from agents.models.agents import Agent, AgentRevision
from agents.models.runs import Run
from agents.rules import find_faults
from agents.tools.catalogue import find_tool_faults
from memory.blocks.models import Block
from memory.errors import InvalidInput
from memory.projects.actors import Actor, name_actor
from memory.projects.models import Project
from memory.releases.models import Release


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSpec:
    """What a revision says. `tools` and `blocks` are as in `AgentRevision`."""

    system: str = ""
    model: str = ""
    window_tokens: int = 32_000
    max_output_tokens: int = 2_000
    temperature: float | None = None
    blocks: tuple[dict[str, Any], ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    rules: tuple[dict[str, Any], ...] = ()
    limits: Limits = field(default_factory=Limits)
    compaction: Compacting = field(default_factory=Compacting)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a revision that says this."""
        columns = {name: getattr(self, name) for name in self.__slots__}
        return columns | {
            "blocks": list(self.blocks),
            "tools": list(self.tools),
            "rules": list(self.rules),
            "limits": written(self.limits),
            "compaction": self.compaction.model_dump(),
        }

    @property
    def sha256(self) -> str:
        text = json.dumps(self.columns(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@transaction.atomic
def create_agent(project: Project, *, name: str, spec: AgentSpec, by: Actor, description: str = "") -> Agent:
    """Make an agent with its first revision.

    Raises:
        NameTaken: another agent of the project has the name.
        InvalidInput: its rules, tools or blocks do not fit together.
    """
    check_spec(project, spec)
    try:
        with transaction.atomic():
            agent = Agent.objects.create(project=project, name=name, description=description, created_by=by.label)
    except IntegrityError as error:
        if "agents_agent_name_unique" not in str(error):
            raise
        raise NameTaken(f"Another agent of the project has the name {name}. Choose another one.") from None
    return _revise(agent, spec, by=by)


@transaction.atomic
def revise_agent(agent: Agent, *, spec: AgentSpec, by: Actor, description: str | None = None) -> Agent:
    """Let an agent be what `spec` says from its next run on. One that already is stays as it is.

    Raises InvalidInput as `create_agent` does.
    """
    check_spec(agent.project, spec)
    agent = Agent.objects.select_for_update(of=("self",)).select_related("project", "current").get(pk=agent.pk)
    if description is not None and description != agent.description:
        agent.description = description
        agent.save(update_fields=["description"])
    return _revise(agent, spec, by=by)


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
        }
    )


def _revise(agent: Agent, spec: AgentSpec, *, by: Actor) -> Agent:
    name_actor(by)
    point_at(agent, store_revision(agent, spec, by=by))
    return agent


def store_revision(agent: Agent, spec: AgentSpec, *, by: Actor) -> AgentRevision:
    """Return the revision of an agent that says this, which is made if there is none. The agent stays what it is."""
    revision = AgentRevision.objects.filter(agent=agent, sha256=spec.sha256).first()
    if revision is not None:
        return revision
    number = 1 + (agent.revisions.order_by("-number").values_list("number", flat=True).first() or 0)
    return AgentRevision.objects.create(
        project=agent.project, agent=agent, number=number, sha256=spec.sha256, created_by=by.label, **spec.columns()
    )


def point_at(agent: Agent, revision: AgentRevision) -> None:
    """Let an agent be a revision of it from its next run on."""
    Agent.objects.filter(pk=agent.pk).update(current=revision)
    agent.current = revision


def deployed_revision(run: Run, release: Release | None) -> AgentRevision:
    """Return what a run's agent is where a release is on trial: as the release says, else as the run began."""
    named = release.manifest.get("agents", {}).get(str(run.agent_id)) if release is not None else None
    if named is None or run.resumes_id is not None:
        return run.revision
    return AgentRevision.objects.get(pk=named["revision"], agent=run.agent_id)


def _find_block_faults(project: Project, spec: AgentSpec) -> dict[str, list[str]]:
    known = set(
        map(
            str,
            Block.objects.filter(project=project, pk__in=[each["block"] for each in spec.blocks]).values_list(
                "pk", flat=True
            ),
        )
    )
    faults: dict[str, list[str]] = {}
    seen: set[str] = set()
    for index, each in enumerate(spec.blocks):
        if each["block"] not in known:
            faults[f"/blocks/{index}"] = [f"There is no block {each['block']} in this project."]
        elif each["label"] in seen:
            faults[f"/blocks/{index}"] = [f"The label {each['label']} is used twice."]
        seen.add(each["label"])
    return faults


def check_spec(project: Project, spec: AgentSpec) -> None:
    """Raise InvalidInput where the rules, tools or blocks of a revision do not fit together."""
    faults: dict[str, list[str]] = {}
    if spec.max_output_tokens >= spec.window_tokens:
        faults["/max_output_tokens"] = ["The answer has to fit into window_tokens, with room for the prompt."]
    faults |= find_tool_faults(project, spec.tools)
    faults |= _find_block_faults(project, spec)
    faults |= find_faults(spec.rules, tools=[each["name"] for each in spec.tools])
    if faults:
        raise InvalidInput(faults)
