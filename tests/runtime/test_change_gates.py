"""What a change leaves out, loosens or takes away is an objection, whatever its tools record."""

from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from memory.releases.deployments import cut_release, start_canary
from runtime.changes.policy import POLICY, climb, find_objections
from runtime.changes.proposals import ProposedChange, propose_change
from runtime.errors import NeverEvolves
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.models.tools import ToolRevision, ToolStatus
from runtime.revisions import revise_agent, spec_of
from tests.desk.test_agent_pages import log_in
from tests.lanes import nightly_unless
from tests.releases import make_lesson, serve_releases
from tests.runtime.changing import carry_out_shadow
from tests.runtime.cpython import needs_sandlock
from tests.runtime.refund_desk import (
    WORK,
    calls,
    instructions,
    make_desk,
    make_tool,
    rehearse_change,
    with_example,
)
from tests.runtime.running import BY
from tests.runtime.test_api import Api

pytestmark = pytest.mark.django_db
SETUPS = pytest.mark.parametrize(
    "setup",
    [
        "bare",
        pytest.param("recording", marks=pytest.mark.nightly),
        pytest.param("cpython", marks=[needs_sandlock, pytest.mark.nightly]),
    ],
)
LIMIT = {"type": "max_count_per_run", "tool": "refund", "count": 1}
IDENTITY = {"type": "required_before_exit", "tool": "check_identity"}


def left(*names: str) -> tuple[str, ...]:
    return tuple(name for name in WORK if name not in names)


@SETUPS
@pytest.mark.parametrize(
    "name", nightly_unless(lambda name: name == "check_identity", ["check_identity", "read_policy", "list_orders"])
)
def test_tool_that_is_left_out_is_an_objection_and_in_the_table(setup: str, name: str) -> None:
    api = Api()
    agent = make_desk(setup, project=api.key.api_key.project)

    change = rehearse_change(agent, instructions("Skip a step."), left(name))

    assert find_objections(change) == [f"In shadow it left out 3 calls that the recorded runs made: {name} (3)."]
    answer = api.get(f"changes/{change.pk}").json()
    assert [line["tool"] for line in answer["divergences"] if line["missing"] == 3] == [name]
    assert answer["objections"][0] == find_objections(change)[0]


@SETUPS
def test_saying_success_and_doing_nothing_is_stopped(setup: str) -> None:
    change = rehearse_change(make_desk(setup), instructions("Say that it is refunded."), ())

    assert (change.rung, change.checks.get(name="regression").said) == (
        "failed",
        "0 of 3 recorded runs of no family still work.",
    )


@pytest.mark.nightly
def test_doing_nothing_is_an_objection_where_the_agent_itself_no_longer_works() -> None:
    agent = make_desk()
    change = rehearse_change(agent, instructions("Say that it is refunded."), ())
    Change.objects.filter(pk=change.pk).update(rung="shadowed")
    change.refresh_from_db()

    assert "In shadow it made none of the recorded calls in 3 of 3 runs." in find_objections(change)


@SETUPS
def test_confirmation_that_is_left_out_is_noticed(setup: str) -> None:
    change = rehearse_change(make_desk(setup), instructions("Ask nobody."), left("ask_confirmation"))

    assert change.rung == ("shadowed" if setup == "bare" else "failed")
    assert any("ask_confirmation (3)" in said for said in _compared(change))


@SETUPS
def test_check_after_the_refund_is_an_objection(setup: str) -> None:
    late = (*left("check_identity"), "check_identity")
    change = rehearse_change(make_desk(setup), instructions("Refund first."), late)

    assert find_objections(change) == [
        "In shadow it made 3 calls only after an action that came later in the recorded runs: check_identity (3)."
    ]


@pytest.mark.nightly
def test_check_with_constant_arguments_is_an_objection() -> None:
    change = rehearse_change(make_desk(), instructions("Check anyone."), WORK, check_identity="A1")

    assert find_objections(change) == ["In shadow it left out 2 calls that the recorded runs made: check_identity (2)."]


@pytest.mark.nightly
def test_refund_that_is_made_twice_is_not_the_same() -> None:
    change = rehearse_change(make_desk("recording"), instructions("Be sure."), (*WORK, "refund"))

    assert "In shadow it wanted 3 writes that the recorded runs did not make." in find_objections(change)


@SETUPS
def test_one_tool_for_two_calls_has_no_objections(setup: str) -> None:
    agent = make_desk(setup)
    both = "    found = find_order(order=order)\n    return [found, read_policy(order=order)]"
    tool = with_example(
        make_tool("find_and_read", both, "find_order", "read_policy"), ["a", "b"], find_order="a", read_policy="b"
    )
    run = agent.runs.order_by("created_at")[0]
    effects = [str(run.effects.get(tool=name).pk) for name in ("find_order", "read_policy")]
    cases = [{"tool": tool.name, "arguments": {"order": "A1"}, "effects": effects}]
    proposal = ProposedChange(reason="Two calls in one.", tools=(tool,), evidence={"cases": cases})
    names = ("list_orders", "find_and_read", *WORK[3:])

    change = rehearse_change(agent, proposal, names)

    assert (change.rung, find_objections(change)) == ("shadowed", [])
    assert sum(row.figures["steps_after"] for row in change.rehearsals.all()) == 18


@pytest.mark.nightly
@SETUPS
def test_tool_that_calls_others_counts_for_what_they_called(setup: str) -> None:
    agent = make_desk(setup)
    whole = "    ask_confirmation(order=order)\n    return refund(order=order)"
    tool = with_example(
        make_tool("find_and_read", whole, "ask_confirmation", "refund"), "b", ask_confirmation="a", refund="b"
    )
    run = agent.runs.order_by("created_at")[0]
    effects = [str(run.effects.get(tool=name).pk) for name in ("ask_confirmation", "refund")]
    cases = [{"tool": tool.name, "arguments": {"order": "A1"}, "effects": effects}]
    proposal = ProposedChange(reason="Two calls in one.", tools=(tool,), evidence={"cases": cases})

    change = rehearse_change(agent, proposal, (*WORK[:4], "find_and_read"))

    assert (change.rung, find_objections(change)) == ("shadowed", [])


@pytest.mark.nightly
def test_look_alike_under_another_name_is_an_objection() -> None:
    tool = with_example(make_tool("verify", "    return 'The customer of ' + order + ' is known.'"), _known("D4"))
    names = tuple("verify" if name == "check_identity" else name for name in WORK)

    change = rehearse_change(make_desk(), ProposedChange(reason="Shorter.", tools=(tool,)), names)

    assert "In shadow it left out 3 calls that the recorded runs made: check_identity (3)." in find_objections(change)


@pytest.mark.parametrize(
    ("test", "members"),
    [
        ("len(order)", {}),
        pytest.param("order", {"kind": "pure"}, marks=pytest.mark.nightly),
        pytest.param("order", {"description": "Not needed."}, marks=pytest.mark.nightly),
    ],
)
def test_tool_in_place_of_one_of_the_same_name_is_an_objection(test: str, members: dict[str, Any]) -> None:
    body = f"    return 'The customer of ' + order + ' is known.' if {test} else ''"
    tool = with_example(replace(make_tool("check_identity", body), **members), _known("D4"))

    change = rehearse_change(make_desk(), instructions("The same.", tools=(tool,)), WORK)

    assert find_objections(change) == ["It replaces tools that the agent has: check_identity."]


def test_tool_that_does_nothing_under_the_same_name_is_stopped() -> None:
    tool = with_example(make_tool("check_identity", "    return 'known'"), "known")

    change = propose_change(make_desk(), ProposedChange(reason="Shorter.", tools=(tool,)), by=BY)
    climb()

    change.refresh_from_db()
    assert (change.rung, change.checks.get(verdict="failed").name) == ("failed", "replay")


def test_tool_that_is_taken_away_is_an_objection() -> None:
    proposal = instructions("Do it without messages.", without_tools=("send_message",))

    change = rehearse_change(make_desk(), proposal, WORK)

    assert find_objections(change) == ["It takes tools away: send_message."]


@pytest.mark.parametrize(
    ("before", "after", "looser"),
    [
        (LIMIT, {**LIMIT, "count": 9}, "max_count_per_run of refund"),
        (LIMIT, None, "max_count_per_run of refund"),
        ({**LIMIT, "type": "max_count_per_step"}, LIMIT, "max_count_per_step of refund"),
        (IDENTITY, None, "required_before_exit of check_identity"),
        (IDENTITY, {**IDENTITY, "tool": "find_order"}, "required_before_exit of check_identity"),
        ({"type": "run_first", "tool": "list_orders"}, None, "run_first of list_orders"),
        (None, {"type": "exit_loop", "tool": "refund"}, "exit_loop of refund"),
        ({"type": "exit_loop", "tool": "refund"}, None, "exit_loop of refund"),
        (None, {"type": "continue_loop", "tool": "refund"}, "continue_loop of refund"),
        (
            {"type": "constrain_child_tools", "tool": "find_order", "children": ["read_policy"]},
            {"type": "constrain_child_tools", "tool": "find_order", "children": ["read_policy", "refund"]},
            "constrain_child_tools of find_order",
        ),
        (
            {"type": "parent_last_tool", "tool": "ask_confirmation", "children": ["refund", "send_message"]},
            {"type": "parent_last_tool", "tool": "ask_confirmation", "children": ["send_message"]},
            "parent_last_tool of ask_confirmation",
        ),
        (
            {"type": "conditional", "tool": "ask_confirmation", "outcomes": {"yes": "refund"}, "require_outcome": True},
            {"type": "conditional", "tool": "ask_confirmation", "outcomes": {"yes": "refund"}},
            "conditional of ask_confirmation",
        ),
    ],
)
def test_rule_that_gets_looser_is_an_objection(
    before: dict[str, Any] | None, after: dict[str, Any] | None, looser: str
) -> None:
    change = _change_rules(before, after)

    assert (
        find_objections(change)[0] == f"It loosens rules, or changes them in a way that cannot be compared: {looser}."
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({**LIMIT, "count": 3}, LIMIT),
        (None, LIMIT),
        (None, IDENTITY),
        (None, {"type": "run_first", "tool": "list_orders"}),
        (
            {"type": "constrain_child_tools", "tool": "find_order", "children": ["read_policy", "refund"]},
            {"type": "constrain_child_tools", "tool": "find_order", "children": ["read_policy"]},
        ),
        (
            {"type": "parent_last_tool", "tool": "ask_confirmation", "children": ["refund"]},
            {"type": "parent_last_tool", "tool": "ask_confirmation", "children": ["refund", "send_message"]},
        ),
        (
            {"type": "conditional", "tool": "ask_confirmation", "outcomes": {"yes": "refund"}},
            {"type": "conditional", "tool": "ask_confirmation", "outcomes": {"yes": "refund"}, "require_outcome": True},
        ),
    ],
)
def test_rule_that_gets_stricter_is_none(before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
    change = _change_rules(before, after)

    assert find_objections(change) == ["It has not been in shadow."]


def test_one_more_first_tool_is_looser() -> None:
    first = {"type": "run_first", "tool": "list_orders"}
    agent = make_desk(rules=(first,), orders=())

    change = propose_change(agent, ProposedChange(reason="r", rules=(first, {**first, "tool": "refund"})), by=BY)

    assert "run_first of refund" in find_objections(change)[0]


def test_call_that_a_person_approved_is_answered_in_shadow() -> None:
    agent = make_desk("recording", rules=({"type": "requires_approval", "tool": "refund"},))

    change = rehearse_change(agent, instructions("Be kind."), WORK)

    assert (change.rung, find_objections(change)) == ("shadowed", [])
    assert sum(row.figures["same"] for row in change.rehearsals.all()) == 3 * (len(WORK) + 2)


ALLOW = {"type": "always_allow", "tool": "refund"}


def test_always_allow_is_refused_when_it_is_proposed() -> None:
    agent = make_desk(rules=(LIMIT,), orders=())

    with pytest.raises(NeverEvolves, match="approval_policy"):
        propose_change(agent, ProposedChange(reason="Quicker.", rules=(LIMIT, ALLOW)), by=BY)


def test_always_allow_of_a_person_is_not_taken_away_by_a_change() -> None:
    agent = make_desk(orders=())
    assert agent.current is not None
    spec = replace(spec_of(agent.current), rules=(ALLOW,))
    agent = revise_agent(agent, spec=spec, by=BY, may_allow=True)

    with pytest.raises(NeverEvolves, match="approval_policy"):
        propose_change(agent, ProposedChange(reason="Tidier.", rules=(LIMIT,)), by=BY)


@pytest.mark.nightly
def test_policy_rejects_what_it_objects_to_and_says_why() -> None:
    agent = make_desk("bare", rules=(LIMIT,))
    serve_releases(agent.project)
    Agent.objects.update(changes_by="policy")
    change = propose_change(agent, ProposedChange(reason="Twice.", rules=({**LIMIT, "count": 9},)), by=BY)

    climb()
    climb()
    carry_out_shadow(change, *[calls(WORK)] * 12)
    climb()

    change.refresh_from_db()
    assert (change.rung, change.decision) == (
        "rejected",
        "It loosens rules, or changes them in a way that cannot be compared: max_count_per_run of refund.",
    )


def climb_by_policy(agent: Agent, *, until: str) -> Change:
    """Let the policy take a harmless change to the step before its trial."""
    Agent.objects.filter(pk=agent.pk).update(changes_by="policy")
    change = propose_change(agent, instructions("Be kind."), by=BY)
    climb()
    if until == "shadowed":
        climb()
        carry_out_shadow(change, *[calls(WORK)] * 12)
    change.refresh_from_db()
    assert change.rung == until
    return change


def read_both(api: Api, change: Change) -> tuple[list[str], str]:
    """Return the objections by API, and the text of the page."""
    page = reverse("admin:inbox_item", args=["change", change.pk])
    html = log_in(change.project, permissions=["view_change"]).get(page).content.decode()
    return api.get(f"changes/{change.pk}").json()["objections"], unescape(html)


@pytest.mark.nightly
def test_change_that_can_never_be_tried_is_stopped_and_says_why() -> None:
    api = Api()
    agent = make_desk(project=api.key.api_key.project)
    serve_releases(agent.project)
    change = climb_by_policy(agent, until="shadowed")
    assert agent.current is not None
    revise_agent(agent, spec=replace(spec_of(agent.current), system="You refund today."), by=BY)

    climb()

    change.refresh_from_db()
    said = "The agent desk was changed since this was proposed. Propose it again, for what the agent is now."
    objections, html = read_both(api, change)
    assert (change.rung, objections) == ("failed", [said])
    assert said in html


@pytest.mark.nightly
def test_change_whose_tool_was_rejected_is_stopped_and_says_why() -> None:
    api = Api()
    agent = make_desk(project=api.key.api_key.project)
    serve_releases(agent.project)
    change = climb_by_policy(agent, until="shadowed")
    ToolRevision.objects.filter(tool__name="find_order").update(status=ToolStatus.RETIRED)

    climb()

    change.refresh_from_db()
    objections, html = read_both(api, change)
    assert (change.rung, len(objections)) == ("failed", 1)
    assert "No approved tool find_order" in objections[0]
    assert objections[0] in html


@pytest.mark.nightly
def test_change_that_waits_for_another_trial_says_so() -> None:
    api = Api()
    agent = make_desk(project=api.key.api_key.project)
    serve_releases(agent.project)
    change = climb_by_policy(agent, until="shadowed")
    make_lesson(agent.project, "Check the fare class.")
    start_canary(agent.project, release=cut_release(agent.project, by=POLICY), share=100, by=POLICY)

    climb()

    change.refresh_from_db()
    objections, html = read_both(api, change)
    assert (change.rung, len(objections)) == ("shadowed", 1)
    assert "is on trial in this project, and two at once would disturb each other" in objections[0]
    assert objections[0] in html


@pytest.mark.nightly
def test_change_of_a_project_that_serves_no_releases_says_so() -> None:
    api = Api()
    change = climb_by_policy(make_desk(project=api.key.api_key.project), until="shadowed")

    climb()

    objections, html = read_both(api, change)
    assert "serves every approval at once" in objections[0]
    assert objections[0] in html


@pytest.mark.nightly
def test_change_of_an_agent_without_recorded_runs_says_so() -> None:
    api = Api()
    agent = make_desk(project=api.key.api_key.project)
    agent.runs.update(status="failed")
    change = climb_by_policy(agent, until="checked")

    climb()

    objections, html = read_both(api, change)
    assert objections[-1].startswith("The agent desk has no recorded run that went well")
    assert objections[-1] in html


def _known(order: str) -> str:
    return f"The customer of {order} is known."


def _compared(change: Change) -> list[str]:
    """Return the objections to a change, also where a check has stopped it."""
    change.rung = Change.Rung.SHADOWED
    return find_objections(change)


def _change_rules(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Change:
    agent = make_desk(rules=() if before is None else (before,), orders=())
    return propose_change(agent, ProposedChange(reason="r", rules=() if after is None else (after,)), by=BY)
