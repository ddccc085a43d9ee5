"""The rules of tools read a second time, as sets of what may be called: the judge of what the product lets in."""

from dataclasses import dataclass
from typing import Any

Rule = dict[str, Any]


@dataclass(kw_only=True)
class Made:
    """A call that was let in, in the order in which it was."""

    tool: str
    step: int
    by_tool: bool
    output: str | None = None  # None while it has not ended


def may_call(rules: list[Rule], made: list[Made], tools: set[str], *, step: int, by_tool: bool) -> set[str]:
    """Return the tools that the rules let in now."""
    allowed = tools - _used_up(rules, made, step)
    if by_tool:
        return allowed
    own = [call for call in made if not call.by_tool]
    last = own[-1] if own else None
    for rule in rules:
        match rule["type"]:
            case "constrain_child_tools" if last and last.tool == rule["tool"]:
                allowed &= set(rule["children"])
            case "parent_last_tool" if last is None or last.tool != rule["tool"]:
                allowed -= set(rule["children"])
            case "conditional" if last and last.tool == rule["tool"]:
                allowed &= _after(rule, last.output, tools)
    firsts = {rule["tool"] for rule in rules if rule["type"] == "run_first"}
    if firsts and not own:
        allowed &= firsts
    return allowed - _too_early(rules, own)


def asks_a_person(rules: list[Rule], tool: str, arguments: dict[str, Any]) -> bool:
    """Tell whether a call needs an approval. The only condition that is played is `args.n > 5`."""
    asked = [rule for rule in rules if rule["type"] == "requires_approval" and rule["tool"] == tool]
    n = arguments.get("n")
    is_sure = isinstance(n, int | float) and not isinstance(n, bool) and n <= 5
    return any(not rule.get("when") or not is_sure for rule in asked)


def _used_up(rules: list[Rule], made: list[Made], step: int) -> set[str]:
    gone = set()
    for rule in rules:
        if rule["type"] == "max_count_per_run":
            times = [call for call in made if call.tool == rule["tool"]]
        elif rule["type"] == "max_count_per_step":
            times = [call for call in made if call.tool == rule["tool"] and call.step == step]
        else:
            continue
        if len(times) >= rule["count"]:
            gone.add(rule["tool"])
    return gone


def _after(rule: Rule, output: str | None, tools: set[str]) -> set[str]:
    if output is None:
        return set()
    wanted = rule["outcomes"].get(output.strip()) or rule.get("default")
    if wanted:
        return {wanted}
    return set() if rule.get("require_outcome") else tools


def _too_early(rules: list[Rule], own: list[Made]) -> set[str]:
    """Return the tools that would end the run before others were called that have to be."""
    called = {call.tool for call in own}
    needed = {rule["tool"] for rule in rules if rule["type"] == "required_before_exit"} - called
    return {rule["tool"] for rule in rules if rule["type"] == "exit_loop" and needed - {rule["tool"]}}
