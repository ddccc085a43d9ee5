"""What an import of a project has to check of agents and tools: that their content has the hash that was approved.

The database computes the hashes of lessons and blocks itself. Those of agents and tools are made here.
"""

import hashlib
from collections.abc import Iterator

from memory.api.canonical import canonical_json
from memory.projects.models import Project
from runtime.models.agents import AgentRevision
from runtime.models.tools import ToolRevision
from runtime.revisions import AgentSpec, hash_columns

_TOOL_COLUMNS = ("description", "parameters", "source", "uses", "kind", "runtime", "examples", "limits", "request")


def find_changed_revisions(project: Project) -> Iterator[tuple[str, str, str]]:
    """Yield the table and the id of each revision whose content does not have its hash, and what that means."""
    for agent_revision in AgentRevision.objects.filter(project=project).iterator(chunk_size=100):
        if agent_revision.content_sha256 not in _hash_agent(agent_revision):
            yield "agents_agentrevision", str(agent_revision.pk), "the agent was changed after it was approved"
    tools = ToolRevision.objects.filter(project=project).select_related("tool")
    for tool_revision in tools.iterator(chunk_size=100):
        if tool_revision.content_sha256 != _hash_tool(tool_revision):
            yield "agents_toolrevision", str(tool_revision.pk), "the tool was changed after it was written"


def _hash_agent(revision: AgentRevision) -> set[str]:
    columns = {name: getattr(revision, name) for name in AgentSpec.__slots__}
    hashes = {hash_columns(columns)}
    # The database keeps a whole number as a float, and the two are hashed differently.
    if revision.temperature is not None and revision.temperature.is_integer():
        hashes.add(hash_columns(columns | {"temperature": int(revision.temperature)}))
    return hashes


def _hash_tool(revision: ToolRevision) -> str:
    content = {name: getattr(revision, name) for name in _TOOL_COLUMNS}
    content |= {"name": revision.tool.name, "requires_approval": revision.requires_approval}
    return hashlib.sha256(canonical_json(content)).hexdigest()
