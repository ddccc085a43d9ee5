"""The scripted agent: its plan is right, its slips recur, and it does what its lessons say, right or wrong."""

from collections import Counter
from importlib.util import find_spec
from typing import Any

import pytest

from evaluation.environments import bfcl
from evaluation.environments.base import Task
from evaluation.environments.clerk import FORMS, HABITS, Clerk, OpenedOffice, make_plan
from evaluation.environments.office import make_tasks, open_office
from evaluation.environments.scripted.advice import GivenAdvice, read_advice
from evaluation.environments.scripted.agent import ScriptedAgent
from evaluation.environments.scripted.plan import Work
from evaluation.environments.scripted.slips import choose_slips, find_slips
from memory.retrieval.context import build_context

CODE_FIRST = {"trigger": "When about to call `refund_order`", "guideline": "Call `refund_code` first."}
DATES = {"trigger": "When about to call `add_event`", "guideline": "Give `date` as a date in the form YYYY-MM-DD."}
needs_bfcl = pytest.mark.skipif(find_spec("bfcl_eval") is None, reason="bfcl-eval is not installed: uv sync")


def block(*lessons: dict[str, str]) -> str:
    rows: list[dict[str, Any]] = [
        {"id": f"00000000-0000-7000-8000-{number:012x}", "avoid": "", "not_when": ""} | lesson
        for number, lesson in enumerate(lessons, 1)
    ]
    return build_context(rows, budget_tokens=4000).text


def turned(lesson: dict[str, str]) -> dict[str, str]:
    text = lesson["guideline"]
    return lesson | {"guideline": f"Do not {text[0].lower()}{text[1:]}", "avoid": text}


def solve(family: str, *lessons: dict[str, str], seed: int = 0) -> list[bool]:
    clerk = Clerk()
    tasks = [task for task in clerk.tasks("test", seed=seed) if task.family == family]
    return [clerk.run(task, lessons=block(*lessons), trial=0).success for task in tasks]


def work(task: Task, *, advice: GivenAdvice | None = None) -> bool:
    """Work on a task without slips."""
    world = OpenedOffice(task.id)
    plan = Work(requests=(task.text,), plan=make_plan(open_office(task.id), task.text), forms=FORMS)
    ScriptedAgent(world, plan, (), advice=advice or GivenAdvice(), seed="a").do_turn(0)
    return world.office.is_done


def test_agent_without_slips_solves_every_task() -> None:
    assert all(work(task) for task in make_tasks("test", seed=0))


def test_slips_are_the_same_habits_in_other_tasks() -> None:
    habits: Counter[tuple[str, ...]] = Counter()
    for task in make_tasks("source", seed=0):
        plan = Work(requests=(task.text,), plan=make_plan(open_office(task.id), task.text), forms=FORMS)
        _, slips = find_slips(lambda name=task.id: OpenedOffice(name), plan)  # type: ignore[misc]
        habits.update(slip.habit for slip in choose_slips(slips, seed="0", task=task.id, habits=HABITS))

    assert habits[("refund_order", "code", "refund_code")] > 3
    assert len(habits) < 8


@pytest.mark.parametrize(("family", "lesson"), [("refund", CODE_FIRST), ("event", DATES)])
def test_lesson_about_a_slip_prevents_it(family: str, lesson: dict[str, str]) -> None:
    before, after = solve(family), solve(family, lesson)

    assert not all(before)
    assert all(after)


@pytest.mark.parametrize(("family", "lesson"), [("refund", CODE_FIRST), ("event", DATES)])
def test_lesson_turned_round_harms(family: str, lesson: dict[str, str]) -> None:
    assert sum(solve(family, turned(lesson))) < sum(solve(family))


def test_lesson_whose_condition_names_another_tool_changes_nothing() -> None:
    shuffled = CODE_FIRST | {"trigger": "When about to call `add_event`"}

    assert solve("refund", shuffled) == solve("refund")


def test_agent_calls_what_a_wrong_lesson_wants_first() -> None:
    task = next(task for task in make_tasks("test", seed=0) if task.family == "event")
    advice = read_advice(block({"trigger": "When about to call `add_event`", "guideline": "Call `finish` first."}))

    world = OpenedOffice(task.id)
    plan = Work(requests=(task.text,), plan=make_plan(open_office(task.id), task.text), offered=("finish",))
    agent = ScriptedAgent(world, plan, (), advice=advice, seed="a")
    agent.do_turn(0)
    assert agent.steps[0]["action"]["name"] == "finish"


def test_form_in_a_lesson_decides_between_the_values_in_mind() -> None:
    advice = read_advice(
        block({"trigger": "When about to call `f`", "guideline": "Give `n` as a number, not as a text."})
    )

    assert advice.form_of("f", "n", right=7, wrong="7") == 7
    assert advice.form_of("f", "n", right="7", wrong=7) == 7  # it reads the lesson, it does not know better
    assert advice.form_of("f", "m", right=7, wrong="7") is None


@needs_bfcl
def test_dialogues_without_slips_pass_the_checker_of_the_leaderboard() -> None:
    without = [
        dialogue
        for dialogue in list(bfcl.read_dialogues().values())[:40]
        if not choose_slips(bfcl.find_occasions(dialogue.id)[1], seed="0", task=dialogue.id)
    ]

    assert len(without) > 3
    assert all(bfcl.work_on(dialogue, lessons="", seed="0:0").success for dialogue in without)
