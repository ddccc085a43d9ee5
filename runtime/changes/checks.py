"""The checks of a change that need no model, cheap ones first. Each writes a row with its verdict and what it saw; the
first that fails stops the change. Those that need the model come with the shadow runs (`regression`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reflection.llm.chat import ChatRequest, PromptMessage
from runtime.changes.kinds import check_untouched
from runtime.changes.proposals import new_tools
from runtime.changes.rehearsals import tools_of_revision
from runtime.changes.replay import REPLAY_SECONDS, replay_tool
from runtime.changes.served import find_lesson_faults
from runtime.definitions.checks import EXAMPLE_SECONDS, find_example_faults, find_type_faults
from runtime.definitions.storage import as_definition, find_schemas
from runtime.definitions.values import ToolDefinition
from runtime.errors import NeverEvolves
from runtime.models.agents import AgentRevision
from runtime.models.changes import Change, CheckVerdict, EvaluationRow, RowKind
from runtime.revisions import spec_of
from runtime.rules import find_faults
from runtime.sandbox import SharedSeconds

MOST_PROMPT_GROWTH = 2.0  # times what the agent's prompt was
FEW_TOKENS = 2_000  # a prompt may always grow by so much


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """What a check found."""

    verdict: str
    said: str
    figures: dict[str, Any] = field(default_factory=dict)


def passed(said: str, **figures: Any) -> CheckResult:
    return CheckResult(verdict=CheckVerdict.PASSED, said=said, figures=figures)


def failed(said: str, **figures: Any) -> CheckResult:
    return CheckResult(verdict=CheckVerdict.FAILED, said=said, figures=figures)


def skipped(said: str, **figures: Any) -> CheckResult:
    return CheckResult(verdict=CheckVerdict.SKIPPED, said=said, figures=figures)


def run_checks(change: Change, *, by: str) -> list[EvaluationRow]:
    """Run the checks of a change up to the first that fails; return rows that are not stored yet."""
    attempt = 1 + (change.checks.order_by("-attempt").values_list("attempt", flat=True).first() or 0)
    results: list[tuple[str, CheckResult]] = []
    for name, check in CHECKS.items():
        results.append((name, check(change)))
        if results[-1][1].verdict == CheckVerdict.FAILED:
            break
    return write_rows(change, results, attempt=attempt, by=by)


def write_rows(
    change: Change, found: Sequence[tuple[str, CheckResult]], *, attempt: int, by: str, first: int = 0
) -> list[EvaluationRow]:
    """Return the rows of what checks found, by their names; they are not stored yet.

    Args:
        first: the place of the first among the rows of the attempt.
    """
    return [
        EvaluationRow(
            project_id=change.project_id,
            kind=RowKind.CHECK,
            change=change,
            attempt=attempt,
            index=first + offset,
            name=name,
            verdict=result.verdict,
            said=result.said,
            figures=result.figures,
            made_by=by,
        )
        for offset, (name, result) in enumerate(found)
    ]


def _check_kind(change: Change) -> CheckResult:
    """Whether it leaves alone what never evolves."""
    tools = [(as_definition(revision), revision.tool.current) for revision in new_tools(change)]
    try:
        check_untouched(spec_of(change.base), spec_of(change.target), tools)
    except NeverEvolves as refusal:
        return failed(str(refusal))
    return passed(f"It changes {', '.join(change.kinds)}, which may evolve.", kinds=change.kinds)


def _check_rules(change: Change) -> CheckResult:
    faults = find_faults(change.target.rules, tools=[tool["name"] for tool in change.target.tools])
    if faults:
        return failed(" ".join(text for texts in faults.values() for text in texts))
    return passed("The rules and tools fit together.", rules=len(change.target.rules))


def _check_lessons(change: Change) -> CheckResult:
    """Whether its lessons could be approved as they are."""
    if faults := find_lesson_faults(change):
        return failed(" ".join(faults), faults=faults)
    if not change.lessons:
        return skipped("It brings no lessons.")
    return passed("Its lessons can be approved as they are, or are in use already.", lessons=len(change.lessons))


def _check_reach(change: Change) -> CheckResult:
    """Whether its tools call only what the agent itself may call."""
    has = {row["name"] for row in change.base.tools}
    reaches = {row.tool.name: row.uses for row in new_tools(change)}
    beyond = [f"{tool} calls {name}" for tool, uses in reaches.items() for name in uses if name not in has]
    if beyond:
        return failed(f"It reaches further than the agent does today: {'; '.join(beyond)}.", beyond=beyond)
    if not reaches:
        return skipped("It brings no tools.")
    return passed("Its tools call only what the agent may call itself.", uses=reaches)


def _check_types(change: Change) -> CheckResult:
    return _look_at_tools(change, _find_types, "The source has the types that it says.")


def _check_examples(change: Change) -> CheckResult:
    bare = [revision.tool.name for revision in new_tools(change) if not revision.examples]
    if bare:
        return failed(f"{bare[0]} has no examples. Add calls with their answers.")
    seconds = SharedSeconds(EXAMPLE_SECONDS)
    return _look_at_tools(
        change,
        lambda definition, _: list(map(str, find_example_faults(definition, seconds=seconds))),
        "Its examples answer what they should.",
    )


def _find_types(definition: ToolDefinition, schemas: dict[str, Any]) -> list[str]:
    unknown = [name for name in definition.uses if name not in schemas]
    if unknown:
        return [f"{definition.name} uses {unknown[0]}, which is no tool of the project."]
    return list(map(str, find_type_faults(definition, schemas)))


def _look_at_tools(
    change: Change, find: Callable[[ToolDefinition, dict[str, Any]], list[str]], well: str
) -> CheckResult:
    tools = [as_definition(tool) for tool in new_tools(change)]
    if not tools:
        return skipped("It brings no tools.")
    faults = [fault for tool in tools for fault in find(tool, find_schemas(change.agent.project, tool.uses))]
    return failed(" ".join(faults), faults=faults) if faults else passed(well, tools=[tool.name for tool in tools])


def _check_replay(change: Change) -> CheckResult:
    """Whether its tools do on recorded calls what was done then, and no more."""
    tools = new_tools(change)
    seconds = SharedSeconds(REPLAY_SECONDS)
    replays = [replay_tool(change, item, seconds=seconds) for item in tools]
    cases = sum(item.cases for item in replays)
    differences = [text for item in replays for text in item.differences]
    figures = {"cases": cases, "calls": sum(item.calls for item in replays), "differences": differences[:20]}
    if differences:
        return failed(f"On recorded calls it does something else: {differences[0]}", **figures)
    if idle := [text for item in replays for text in item.never_called]:
        return failed(
            f"{idle[0]} may change something, and no recorded call shows when. Take it out of uses, or bring a case.",
            **figures,
        )
    if not cases:
        return skipped("There are no recorded calls to compare its tools with." if tools else "It brings no tools.")
    return passed(f"It made the same {figures['calls']} calls as {cases} recorded cases.", **figures)


def _check_budget(change: Change) -> CheckResult:
    """Whether the beginning of every prompt stays of a size."""
    before, after = _measure(change.base), _measure(change.target)
    figures = {"tokens_before": before, "tokens_after": after}
    if after > max(before * MOST_PROMPT_GROWTH, before + FEW_TOKENS):
        return failed(f"Every prompt would begin with {after:,} tokens instead of {before:,}.", **figures)
    lessons = change.retrieval.get("context_budget_tokens", 0)
    if after + lessons + change.target.max_output_tokens >= change.target.window_tokens:
        return failed(f"With {after:,} tokens the beginning of the prompt leaves no room in the window.", **figures)
    return passed(f"Every prompt begins with {after:,} tokens; it was {before:,}.", **figures)


def _measure(revision: AgentRevision) -> int:
    messages = (PromptMessage(role="system", content=revision.system),)
    tools = tuple(tool for tool, _ in tools_of_revision(revision))
    # Only its size is estimated; it is never sent.
    return ChatRequest(messages=messages, tools=tools, max_output_tokens=1).estimated_input_tokens


CHECKS: dict[str, Callable[[Change], CheckResult]] = {
    "kind": _check_kind,
    "rules": _check_rules,
    "lessons": _check_lessons,
    "reach": _check_reach,
    "types": _check_types,
    "examples": _check_examples,
    "budget": _check_budget,
    "replay": _check_replay,
}
