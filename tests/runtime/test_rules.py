"""Rules about tools: what they refuse, what is refused of them, and that no path goes around them."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from runtime.conditions import holds
from runtime.models.effects import Effect
from runtime.rules import Called, find_faults, read_rules, refuse_call
from tests.runtime.running import Script, go_on, make_agent, make_run

TOOLS = ["a", "b", "c", "d"]


def refused(rules: list[dict[str, Any]], history: list[str], tool: str, output: str = "ok") -> str:
    called = [Called(tool=each, step=number, output=output) for number, each in enumerate(history)]
    return refuse_call(read_rules(rules), called, tool=tool, step=len(history))


@pytest.mark.parametrize(
    ("rule", "history", "allowed", "denied"),
    [
        ({"type": "run_first", "tool": "a"}, [], "a", "b"),
        ({"type": "constrain_child_tools", "tool": "a", "children": ["b"]}, ["a"], "b", "c"),
        ({"type": "parent_last_tool", "tool": "a", "children": ["b"]}, ["a", "c"], "c", "b"),
        ({"type": "conditional", "tool": "a", "outcomes": {"ok": "b"}, "default": "c"}, ["a"], "b", "c"),
        ({"type": "max_count_per_run", "tool": "a", "count": 2}, ["a", "a"], "b", "a"),
    ],
)
def test_rule_lets_one_call_start_and_not_another(
    rule: dict[str, Any], history: list[str], allowed: str, denied: str
) -> None:
    assert refused([rule], history, allowed) == ""
    assert refused([rule], history, denied) != ""


def test_exit_tool_waits_for_the_required_one() -> None:
    rules = [{"type": "exit_loop", "tool": "a"}, {"type": "required_before_exit", "tool": "b"}]

    assert refused(rules, ["c"], "a") == "a ends the run. Call b before."
    assert refused(rules, ["b"], "a") == ""


def test_call_after_an_unfinished_conditional_one_is_refused() -> None:
    rules = read_rules([{"type": "conditional", "tool": "a", "outcomes": {"ok": "b"}}])

    assert refuse_call(rules, [Called(tool="a", step=1)], tool="b", step=1).startswith("Wait for the result")


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"type": "run_first", "tool": "x"}, "no tool x"),
        ({"type": "requires_approval", "tool": "a", "when": "open('x')"}, "cannot use Call"),
        ({"type": "max_count_per_run", "tool": "a", "count": 0}, "count: This should be greater than"),
        ({"type": "max_count_per_run", "tool": "a"}, "count: This member is required."),
        ({"type": "be_nice", "tool": "a"}, "The type of a rule is one of run_first, exit_loop"),
        ({}, "The type of a rule is one of run_first, exit_loop"),
        ({"type": "constrain_child_tools", "tool": "a", "children": []}, "at least 1"),
        ({"type": "parent_last_tool", "tool": "b", "children": ["b"]}, "can never be called"),
    ],
)
def test_rule_that_cannot_work_is_found_when_it_is_saved(rule: dict[str, Any], fault: str) -> None:
    faults = find_faults([rule], tools=TOOLS)

    assert fault in faults["/rules/0"][0]


@pytest.mark.parametrize(
    ("condition", "arguments", "expected"),
    [
        ("args.total > 100", {"total": 150}, True),
        ("args.total > 100", {"total": 50}, False),
        ("args.total > 100", {}, True),
        ("args.total > 100", {"total": "50"}, True),
        ("args.total > 100", {"total": True}, True),
        ("args.to not in ['ana', 'bo']", {"to": "ana"}, False),
        ("args['order']['total'] >= 10 and not args.free", {"order": {"total": 3}, "free": False}, False),
        ("args.total == 100", {"total": "100"}, True),
    ],
)
def test_condition_fails_closed(condition: str, arguments: dict[str, Any], expected: bool) -> None:
    assert holds(condition, arguments) is expected


def draw_rules(chance: random.Random) -> list[dict[str, Any]]:
    """Draw some rules at random; not all can work together."""

    def some() -> list[str]:
        return chance.sample(TOOLS, chance.randint(1, 3))

    makers: list[Callable[[], dict[str, Any]]] = [
        lambda: {"type": "run_first", "tool": chance.choice(TOOLS)},
        lambda: {"type": "constrain_child_tools", "tool": chance.choice(TOOLS), "children": some()},
        lambda: {"type": "parent_last_tool", "tool": chance.choice(TOOLS), "children": some()},
        lambda: {"type": "max_count_per_run", "tool": chance.choice(TOOLS), "count": chance.randint(1, 3)},
        lambda: {"type": "max_count_per_step", "tool": chance.choice(TOOLS), "count": chance.randint(1, 2)},
    ]
    return [chance.choice(makers)() for _ in range(chance.randint(1, 5))]


def break_rule(rules: list[dict[str, Any]], calls: list[tuple[int, str]]) -> str:
    """Return the rule that a list of calls (step, tool) breaks, found in another way than the product finds it."""
    names = [tool for _, tool in calls]
    for rule in rules:
        tool, kind = rule["tool"], rule["type"]
        pairs = list(zip([None, *names], names, strict=False))
        first = {each["tool"] for each in rules if each["type"] == "run_first"}
        broken = {
            "run_first": bool(names) and names[0] not in first,
            "constrain_child_tools": any(one == tool and two not in rule.get("children", []) for one, two in pairs),
            "parent_last_tool": any(two in rule.get("children", []) and one != tool for one, two in pairs),
            "max_count_per_run": names.count(tool) > rule.get("count", 0),
            "max_count_per_step": any(calls.count((step, tool)) > rule.get("count", 0) for step, _ in calls),
        }
        if broken[kind]:
            return str(rule)
    return ""


def test_random_policies_break_no_random_rules() -> None:
    chance = random.Random(20)
    started = 0
    for _ in range(2_000):
        drawn = draw_rules(chance)
        rules, calls = read_rules(drawn), list[tuple[int, str]]()
        for step in range(6):
            for tool in chance.choices(TOOLS, k=chance.randint(1, 3)):
                history = [Called(tool=each, step=at, output="ok") for at, each in calls]
                if not refuse_call(rules, history, tool=tool, step=step):
                    calls.append((step, tool))
        started += len(calls)
        assert break_rule(drawn, calls) == ""
    assert started > 5_000


@pytest.mark.django_db
def test_rule_is_enforced_where_the_call_is_written_down() -> None:
    rules = ({"type": "max_count_per_run", "tool": "send_message", "count": 1},)
    run = make_run(make_agent(tools=["send_message"], rules=rules))

    go_on(run, Script([("send_message", {"message": "1"}), ("send_message", {"message": "2"})], "Done."))

    assert list(run.effects.values_list("status", flat=True)) == [Effect.Status.SUCCEEDED, Effect.Status.REFUSED]


@pytest.mark.django_db
def test_exit_tool_ends_the_run() -> None:
    run = make_run(make_agent(tools=["send_message"], rules=({"type": "exit_loop", "tool": "send_message"},)))

    go_on(run, Script([("send_message", {"message": "Bye"})]))

    assert (run.status, run.stop_reason) == ("succeeded", "tool_rule")


@pytest.mark.django_db
def test_run_that_ends_without_a_required_tool_is_reminded_once_and_fails() -> None:
    rules = ({"type": "required_before_exit", "tool": "send_message"},)
    run = make_run(make_agent(tools=["send_message"], rules=rules))
    script = Script("Done.", "Done, really.")

    go_on(run, script)

    assert script.asked[1].messages[-1].content == "Before you finish, call send_message."
    assert (run.status, run.stop_reason) == ("failed", "required_tool_missing")
