"""The rules by which an agent may call its tools.

`refuse_call` is the only place that decides, and runtime/loop/journal.py the only one that asks: where the row of an
effect is inserted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from memory.api.input import Input, write_fault
from runtime.conditions import InvalidCondition, check_condition, holds

MAX_RULES = 200
Tool: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]


class RunFirst(Input):
    """The first call of a run is of this tool, or of another one with such a rule."""

    type: Literal["run_first"]
    tool: Tool


class ExitLoop(Input):
    """The run ends after this tool."""

    type: Literal["exit_loop"]
    tool: Tool


class ContinueLoop(Input):
    """After this tool the model is asked again, even where it then calls no tool."""

    type: Literal["continue_loop"]
    tool: Tool


class ConstrainChildTools(Input):
    """Directly after this tool only its children may be called."""

    type: Literal["constrain_child_tools"]
    tool: Tool
    children: Annotated[list[Tool], Field(min_length=1)]


class ParentLastTool(Input):
    """The children may be called directly after this tool only."""

    type: Literal["parent_last_tool"]
    tool: Tool
    children: Annotated[list[Tool], Field(min_length=1)]


class Conditional(Input):
    """What this tool returned says which one may be called next: by its whole text, else `default`, else any."""

    type: Literal["conditional"]
    tool: Tool
    outcomes: Annotated[dict[str, Tool], Field(min_length=1)]
    default: Tool | None = None
    require_outcome: bool = False


class MaxCountPerStep(Input):
    """In one answer of the model this tool is called at most `count` times."""

    type: Literal["max_count_per_step"]
    tool: Tool
    count: Annotated[int, Field(ge=1)]


class MaxCountPerRun(Input):
    """In one run this tool is called at most `count` times."""

    type: Literal["max_count_per_run"]
    tool: Tool
    count: Annotated[int, Field(ge=1)]


class RequiredBeforeExit(Input):
    """A run does not end well before this tool was called."""

    type: Literal["required_before_exit"]
    tool: Tool


class RequiresApproval(Input):
    """A person has to approve a call of this tool, or those calls for whose arguments `when` holds."""

    type: Literal["requires_approval"]
    tool: Tool
    when: str = ""


class AlwaysAllow(Input):
    """Calls of this tool need no approval, even if the tool or another rule asks for one.

    With `revision`, that holds for this revision of the tool alone: people are asked about another one again.
    """

    type: Literal["always_allow"]
    tool: Tool
    revision: Annotated[str, Field(max_length=36)] = ""


Rule: TypeAlias = Annotated[
    RunFirst
    | ExitLoop
    | ContinueLoop
    | ConstrainChildTools
    | ParentLastTool
    | Conditional
    | MaxCountPerStep
    | MaxCountPerRun
    | RequiredBeforeExit
    | RequiresApproval
    | AlwaysAllow,
    Field(discriminator="type"),
]
_RULE: TypeAdapter[Any] = TypeAdapter(Rule)
_TYPES = [get_args(each.model_fields["type"].annotation)[0] for each in get_args(get_args(Rule)[0])]


@dataclass(frozen=True, kw_only=True, slots=True)
class Called:
    """A call of a run: its step, and what it returned; None while it has not ended.

    Results that no rule reads may be left out. `by_tool` says that a tool in the sandbox made the call, and not the
    model.
    """

    tool: str
    step: int
    output: str | None = None
    by_tool: bool = False


def read_rules(stored: Iterable[Any]) -> list[Any]:
    """Return rules from their JSON. Those of a revision were checked when it was saved."""
    return [_RULE.validate_python(rule) for rule in stored]


def find_faults(stored: Sequence[Any], *, tools: Iterable[str]) -> dict[str, list[str]]:
    """Return what is wrong with rules, by place: unknown forms and tools, and tools that could never be called."""
    faults: dict[str, list[str]] = {}
    rules = []
    for index, row in enumerate(stored):
        pointer = f"/rules/{index}"
        try:
            rule = _RULE.validate_python(row)
        except ValidationError as error:
            faults[pointer] = [_write_fault(fault) for fault in error.errors()]
            continue
        rules.append(rule)
        if unknown := sorted(_named(rule) - set(tools)):
            faults[pointer] = [f"The agent has no tool {unknown[0]}."]
        elif isinstance(rule, RequiresApproval) and rule.when:
            try:
                check_condition(rule.when)
            except InvalidCondition as error:
                faults[pointer] = [str(error)]
    if not faults and len(rules) > MAX_RULES:
        faults["/rules"] = [f"Send at most {MAX_RULES} rules."]
    # Only rules that could be read can be followed through.
    if not faults:
        faults |= _find_impossible(rules, sorted(set(tools)))
    return faults


def _write_fault(fault: ErrorDetails) -> str:
    """Return what is wrong with the form of a rule as a sentence, with the member that is wrong."""
    if fault["type"] in ("union_tag_not_found", "union_tag_invalid"):
        return f"The type of a rule is one of {', '.join(_TYPES)}."
    # The first part of `loc` is the type of the rule, the second its member.
    member = "".join(f"{part}: " for part in fault["loc"][1:2])
    return member + write_fault(fault["type"], fault["msg"])


def refuse_call(rules: Sequence[Any], history: Sequence[Called], *, tool: str, step: int, by_tool: bool = False) -> str:
    """Return why a tool may not be called now, as a sentence for the agent; "" where it may be.

    The order is that of the model's own calls; counts hold for those of tools in the sandbox as well.

    Args:
        history: the calls of the run so far in their order, without those that were refused.
    """
    if refused := _refuse_count(rules, history, tool=tool, step=step):
        return refused
    if by_tool:
        return ""
    own = [call for call in history if not call.by_tool]
    return _refuse_order(rules, own, tool=tool) or _refuse_exit(rules, own, tool=tool)


def needs_approval(
    rules: Sequence[Any], *, tool: str, arguments: dict[str, Any] | None, revision: str = "", by_itself: bool = False
) -> bool:
    """Tell whether a person has to approve a call.

    Args:
        revision: of the tool, "" for one of ERL.
        by_itself: the tool asks for an approval, whatever agent has it.
    """
    if is_allowed(rules, tool=tool, revision=revision):
        return False
    asked = [rule for rule in rules if isinstance(rule, RequiresApproval) and rule.tool == tool]
    return by_itself or any(not rule.when or holds(rule.when, arguments) for rule in asked)


def is_allowed(rules: Sequence[Any], *, tool: str, revision: str) -> bool:
    """Tell whether a person has allowed a tool for always."""
    allowed = [rule for rule in rules if isinstance(rule, AlwaysAllow) and rule.tool == tool]
    return any(rule.revision in ("", revision) for rule in allowed)


def reads_history(rules: Sequence[Any]) -> bool:
    """Tell whether a rule depends on the calls of a run so far."""
    return not all(isinstance(rule, RequiresApproval | AlwaysAllow) for rule in rules)


def find_conditional(rules: Sequence[Any]) -> list[str]:
    """Return the tools whose results a rule reads."""
    return [rule.tool for rule in rules if isinstance(rule, Conditional)]


def ends_run(rules: Sequence[Any], tools: Iterable[str]) -> bool:
    """Tell whether a run ends after calls of these tools."""
    exits = {rule.tool for rule in rules if isinstance(rule, ExitLoop)}
    return not exits.isdisjoint(tools)


def goes_on(rules: Sequence[Any], tool: str) -> bool:
    """Tell whether the model is asked again after this tool even where it then calls none."""
    return any(isinstance(rule, ContinueLoop) and rule.tool == tool for rule in rules)


def find_missing(rules: Sequence[Any], history: Sequence[Called]) -> list[str]:
    """Return the tools that have to be called before the run may end, and were not."""
    called = {call.tool for call in history}
    return [rule.tool for rule in rules if isinstance(rule, RequiredBeforeExit) and rule.tool not in called]


def _refuse_order(rules: Sequence[Any], history: Sequence[Called], *, tool: str) -> str:
    if not history:
        first = [rule.tool for rule in rules if isinstance(rule, RunFirst)]
        if first and tool not in first:
            return f"Call {_one_of(first)} first."
    last = history[-1] if history else None
    for rule in rules:
        match rule:
            case ConstrainChildTools() if last and rule.tool == last.tool and tool not in rule.children:
                return f"After {rule.tool} call {_one_of(rule.children)}."
            case ParentLastTool() if tool in rule.children and (last is None or last.tool != rule.tool):
                return f"Call {tool} directly after {rule.tool}."
            case Conditional() if last and rule.tool == last.tool:
                if refused := _refuse_outcome(rule, last.output, tool=tool):
                    return refused
    return ""


def _refuse_outcome(rule: Conditional, output: str | None, *, tool: str) -> str:
    if output is None:
        return f"Wait for the result of {rule.tool} before you call another tool."
    wanted = rule.outcomes.get(output.strip(), rule.default)
    if wanted is None:
        return f"{rule.tool} returned nothing after which a tool may be called." if rule.require_outcome else ""
    return "" if tool == wanted else f"After this result of {rule.tool} call {wanted}."


def _refuse_count(rules: Sequence[Any], history: Sequence[Called], *, tool: str, step: int) -> str:
    in_run = sum(call.tool == tool for call in history)
    in_step = sum(call.tool == tool and call.step == step for call in history)
    for rule in rules:
        match rule:
            case MaxCountPerRun() if rule.tool == tool and in_run >= rule.count:
                return f"{tool} may be called {_times(rule.count)} in a run, and was."
            case MaxCountPerStep() if rule.tool == tool and in_step >= rule.count:
                return f"{tool} may be called {_times(rule.count)} in one answer, and was."
    return ""


def _refuse_exit(rules: Sequence[Any], history: Sequence[Called], *, tool: str) -> str:
    if not ends_run(rules, [tool]):
        return ""
    missing = [name for name in find_missing(rules, history) if name != tool]
    return f"{tool} ends the run. Call {missing[0]} before." if missing else ""


def _find_impossible(rules: Sequence[Any], tools: Sequence[str]) -> dict[str, list[str]]:
    """Return the tools that no order of calls can reach, and those after which a needed one cannot be reached."""
    # None stands for the beginning of a run.
    following = {last: _may_follow(rules, last, tools) for last in (None, *tools)}
    reached: set[str] = set()
    waiting = list(following[None])
    while waiting:
        if (tool := waiting.pop()) not in reached:
            reached.add(tool)
            waiting += following[tool]
    faults: dict[str, list[str]] = {}
    for index, rule in enumerate(rules):
        if never := sorted(_named(rule) - reached):
            faults[f"/rules/{index}"] = [f"With these rules {never[0]} can never be called."]
    return faults


def _may_follow(rules: Sequence[Any], last: str | None, tools: Sequence[str]) -> list[str]:
    """Return the tools that may be called directly after one, whatever that returned."""
    history = [] if last is None else [Called(tool=last, step=0, output="")]
    for rule in rules:
        if isinstance(rule, Conditional) and rule.tool == last:
            names = {*rule.outcomes.values(), *([rule.default] if rule.default else [])}
            is_open = rule.default is None and not rule.require_outcome
            tools = [tool for tool in tools if is_open or tool in names]
    rest = [rule for rule in rules if not isinstance(rule, Conditional)]
    # What ends the run is followed by nothing.
    return [] if last and ends_run(rules, [last]) else [t for t in tools if not _refuse_order(rest, history, tool=t)]


def _named(rule: Any) -> set[str]:
    names = {rule.tool, *getattr(rule, "children", ())}
    if isinstance(rule, Conditional):
        names |= {*rule.outcomes.values(), *([rule.default] if rule.default else [])}
    return names


def _one_of(tools: Sequence[str]) -> str:
    return tools[0] if len(tools) == 1 else f"{', '.join(tools[:-1])} or {tools[-1]}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
