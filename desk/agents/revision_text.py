"""What a revision of an agent says, in words that can be read and compared."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from desk.shell.word_diff import DiffPart, diff_words, shorten_same
from runtime.models.agents import AgentRevision
from runtime.models.tools import ToolRevision


def number_tools(revisions: Iterable[AgentRevision]) -> dict[str, int]:
    """Return the numbers of the revisions of tools that these name, by their ids. One query."""
    ids = {tool["revision"] for revision in revisions for tool in revision.tools if "revision" in tool}
    return {str(id): number for id, number in ToolRevision.objects.filter(pk__in=ids).values_list("pk", "number")}


def write_revision(revision: AgentRevision, numbers: Mapping[str, int]) -> str:
    """Return what a revision says, a line for each thing, and the instructions last."""
    lines = [
        f"Model: {revision.model or 'the one of the server'}",
        f"Context window: {revision.window_tokens:,} tokens, {revision.max_output_tokens:,} of them for an answer",
    ]
    lines += [f"Temperature: {revision.temperature:g}"] if revision.temperature is not None else []
    lines += [f"Model: {name.replace('_', ' ')} {_write(value)}" for name, value in revision.model_settings.items()]
    lines += [f"Block: {block['label']}" for block in revision.blocks]
    lines += [f"Tool: {write_tool(tool, numbers)}" for tool in revision.tools]
    lines += [f"Rule: {write_rule(rule)}" for rule in revision.rules]
    lines += [f"Limit: {name.replace('_', ' ')} {_write(value)}" for name, value in revision.limits.items()]
    lines += [f"Shortening: {name.replace('_', ' ')} {_write(value)}" for name, value in revision.compaction.items()]
    return "\n".join([*lines, "Instructions:", revision.system or "none"])


def write_tool(tool: Mapping[str, Any], numbers: Mapping[str, int]) -> str:
    """Return a tool of a revision, with the number of its own revision where it has one."""
    number = numbers.get(tool.get("revision", ""))
    return f"{tool['name']} (revision {number})" if number else str(tool["name"])


def write_rule(rule: Mapping[str, Any]) -> str:
    """Return a rule in words."""
    if rule["type"] == "always_allow":
        return f"always allow {rule['tool']}{', until it has another revision' if rule.get('revision') else ''}"
    more = [f"{name}: {_write(value)}" for name, value in rule.items() if name not in ("type", "tool")]
    return ", ".join([f"{rule['type'].replace('_', ' ')} {rule['tool']}", *more])


def describe_limit(name: str, value: Any) -> str:
    """Return a limit of an agent's runs in words."""
    if name == "approval_seconds":
        hours = value / 3600
        wait = f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"
        return f"waits {wait} for a person's decision"
    amount = f"{value:,}" if isinstance(value, int) else str(value)
    noun = name.removeprefix("max_").replace("_", " ")
    return f"at most ${amount}" if noun == "cost usd" else f"at most {amount} {noun}"


def compare(older: AgentRevision | None, newer: AgentRevision, numbers: Mapping[str, int]) -> list[DiffPart]:
    """Return what the newer one changed, with what is the same only around the changes."""
    if older is None:
        return []
    return list(shorten_same(write_revision(older, numbers), write_revision(newer, numbers)))


def write_call(revision: ToolRevision) -> str:
    """Return what a call does: the source, or the request that is sent."""
    return revision.source or json.dumps(revision.request, ensure_ascii=False, indent=2)


def compare_tools(older: ToolRevision | None, newer: ToolRevision) -> list[DiffPart]:
    """Return how a revision of a tool differs from an older one; nothing where there is none."""
    if older is None:
        return []
    texts = []
    for revision in (older, newer):
        lines = [
            revision.description,
            f"Kind: {revision.kind}",
            f"Runs in: {revision.runtime}",
            f"Calls: {', '.join(revision.uses) or 'nothing'}",
            f"Requires approval: {'yes' if revision.requires_approval else 'no'}",
            f"Arguments: {json.dumps(revision.parameters, ensure_ascii=False, indent=1)}",
            write_call(revision),
        ]
        texts.append("\n".join(lines))
    return diff_words(*texts)


def write_examples(revision: ToolRevision) -> list[dict[str, str]]:
    """Return the examples of a revision of a tool as they are shown."""

    def write(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return [{name: write(value) for name, value in example.items()} for example in revision.examples]


def _write(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} → {part}" for name, part in value.items())
    return "none" if value is None else str(value)
