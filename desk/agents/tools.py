"""Decide on a revision of a tool, and write it for people."""

import json
from collections.abc import Mapping
from typing import Any

from desk.agents.revision_text import write_call
from desk.shell.word_diff import DiffPart, diff_words
from memory.errors import MemoryAppError
from memory.projects.actors import Actor
from runtime.definitions.storage import approve_tool, reject_tool
from runtime.models.tools import Tool, ToolRevision


def decide(tool: Tool, data: Mapping[str, Any], *, by: Actor) -> str:
    """Put the revision with a hash in force, or reject it; return what was done, as a sentence.

    Raises:
        MemoryAppError: there is none, or it was decided about otherwise.
    """
    sha256 = str(data.get("sha256", ""))
    revision = tool.revisions.filter(content_sha256=sha256[:64].replace("\x00", "")).first()
    if revision is None:
        raise MemoryAppError("There is no revision with the content that you read. Load the page again.")
    if data.get("do") == "reject":
        reject_tool(revision, by=by, sha256=sha256)
        return f"Revision {revision.number} is rejected."
    approve_tool(revision, by=by, sha256=sha256)
    return f"Revision {revision.number} is in force. New revisions of agents get it."


def compare_revisions(older: ToolRevision | None, newer: ToolRevision) -> list[DiffPart]:
    """Return how a revision differs from an older one; nothing where there is none."""
    return diff_words(_spell_out(older), _spell_out(newer)) if older is not None else []


def _spell_out(revision: ToolRevision) -> str:
    parameters = json.dumps(revision.parameters, ensure_ascii=False, indent=1)
    about = [
        f"Kind: {revision.kind}",
        f"Runs in: {revision.runtime}",
        f"Calls: {', '.join(revision.uses) or 'nothing'}",
        f"Requires approval: {'yes' if revision.requires_approval else 'no'}",
    ]
    return "\n".join([revision.description, *about, f"Arguments: {parameters}", write_call(revision)])


def write_examples(revision: ToolRevision) -> list[dict[str, str]]:
    """Return the examples of a revision as they are shown."""
    return [{name: _write(value) for name, value in example.items()} for example in revision.examples]


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
