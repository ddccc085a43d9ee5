"""Which members of a long JSON answer a prompt shows."""

import json
from dataclasses import replace
from typing import Any

import pytest

from memory.runs.episode import Action, Episode, EpisodeStep
from reflection.reflectors.excerpts import Focus
from reflection.reflectors.llm_answer import answer_schema
from reflection.reflectors.llm_prompt import build_prompt
from reflection.reflectors.members import MAX_DEPTH, choose_members, read_json
from tests.reflection.episodes import make_episode, read_blocks

ORDER = {
    "order_id": "W77",
    "buyer": {"given": "Ada", "family": "Lindt", "street": "Am Hafen 12", "town": "Kiel", "country": "Germany"},
    "items": [{"sku": f"SKU-{number}", "colour": "teal", "weight_grams": 100 + number} for number in range(9)],
    "carrier": "Nordpost",
    "placed_at": "2026-03-01T09:30:00",
    "warranty": "none",
}
FOCUS = Focus(weights={}, members={"warran": 6, "carrie": 3, "w77": 3})


def run_of(count: int = 30, **options: Any) -> Episode:
    """A run too long for its answers: each is about one of many orders."""
    steps = [
        EpisodeStep(
            index=number,
            thought="So I look at the next one. " * 5,
            action=Action(name="get_order", arguments={"order_id": f"W{number}"}),
            observation=json.dumps(ORDER | {"order_id": f"W{number}"}),
        )
        for number in range(1, count + 1)
    ]
    return make_episode(**{"task": "Serve the buyer.", "steps": tuple(steps)} | options)


def trajectory_of(episode: Episode) -> list[dict[str, Any]]:
    prompt = build_prompt(episode, near=(), max_lessons=1, json_schema=answer_schema(1))
    return read_blocks(prompt.request.user)["TRAJECTORY"]


def test_members_that_the_rules_name_are_shown_of_a_long_answer() -> None:
    first = trajectory_of(run_of(system_prompt="An order is taken back within 30 days, or under warranty."))[0]

    shown = first["observation"]
    assert (shown["placed_at"], shown["warranty"]) == ("2026-03-01T09:30:00", "none")
    assert "items" not in shown


def test_value_that_the_run_ended_with_is_shown() -> None:
    said = Action(name="respond", arguments={"content": "Nordpost has lost it."})
    run = run_of()

    first = trajectory_of(run_of(steps=(*run.steps, EpisodeStep(index=31, action=said))))[0]

    assert first["observation"]["carrier"] == "Nordpost"


def test_members_stand_in_their_order_and_those_left_out_are_counted() -> None:
    shown = choose_members(ORDER, 70, FOCUS)

    assert list(shown.items()) == [("order_id", "W77"), ("carrier", "Nordpost"), ("warranty", "none"), ("[…]", 3)]


def test_what_the_call_asked_with_is_not_repeated() -> None:
    assert "order_id" not in choose_members(ORDER, 60, FOCUS, {"W77"})
    assert "order_id" in choose_members(ORDER, 60, FOCUS)


def test_one_item_stands_for_similar_ones() -> None:
    orders = [{"sku": f"SKU-{number}", "state": "left at the wrong door"} for number in range(9)]
    orders[4]["state"] = "lost in the warehouse"

    shown = choose_members(orders, 90, Focus(weights={"lost": 3}, members={"lost": 3, "state": 1}))

    assert shown == [{"sku": "SKU-4", "state": "lost in the warehouse"}, "[… 8 more]"]


def test_line_that_names_an_error_is_shown_of_a_long_text() -> None:
    lines = [f"collecting part {number} of the build" for number in range(60)]
    lines[30] = "KeyError: 'total'"

    shown = choose_members({"exit_code": 1, "stdout": "\n".join(lines)}, 200, FOCUS)

    assert shown["exit_code"] == 1
    assert "KeyError: 'total'" in shown["stdout"]


@pytest.mark.parametrize("limit", [30, 110, 400])
def test_members_take_the_room_of_an_excerpt(limit: int) -> None:
    assert len(json.dumps(choose_members(ORDER, limit, FOCUS), separators=(",", ":"), ensure_ascii=False)) <= limit


def test_answer_without_room_for_a_member_is_cut() -> None:
    shown = read_json(json.dumps({"page": {"section": {"paragraph": "word " * 500}}}), 60, FOCUS)

    assert shown.startswith("{'page'")
    assert len(shown) < 100


def test_deeply_nested_value_is_shown_as_a_text() -> None:
    value = json.loads('{"inner": ' * 200 + json.dumps("x" * 300) + "}" * 200)

    shown = choose_members(value, 400, FOCUS)

    assert json.dumps(shown).startswith('{"inner": ' * MAX_DEPTH + '"{')


@pytest.mark.parametrize(
    "action",
    [
        Action(name="cancel_order", arguments={"order_id": "W9"}),
        Action(name="apply_patch", arguments={"patch": "x"}),
        Action(name="http", arguments={"method": "post", "url": "/orders"}),
    ],
)
def test_call_that_changes_something_is_shown_before_those_that_read(action: Action) -> None:
    assert 45 in steps_shown_with(action)


def test_request_that_only_reads_is_left_out_like_others() -> None:
    action = Action(name="send_request", arguments={"method": "GET", "url": "/orders"})

    assert 45 not in steps_shown_with(action)


def steps_shown_with(action: Action) -> list[int]:
    """Return the numbers of the steps shown of a run of 90, if this is the call of the 45th."""
    steps = list(run_of(90).steps)
    steps[44] = replace(steps[44], action=action)
    return [line["step"] for line in trajectory_of(run_of(steps=tuple(steps))) if "step" in line]
