"""The agent, the reflector and the data of the suite toolchoice."""

import pytest

from evaluation.suites.toolchoice.agent import AgentVectors, ToolAgent, read_lessons
from evaluation.suites.toolchoice.data import load, sample
from evaluation.suites.toolchoice.reflector import ToolChoiceReflector, write_lesson
from evaluation.suites.toolchoice.store import err_sometimes
from memory.heuristics.text import HeuristicText
from memory.retrieval.context import build_context
from memory.runs.episode import Action, Episode, EpisodeStep

TOOLS = {"Weather": "Weather: forecasts for any place", "Chess": "Chess: plays chess", "Maps": "Maps: finds a route"}
REQUEST = "Will it rain in Lima (Peru) tomorrow: yes or no?"


def block(*texts: HeuristicText) -> str:
    lessons = [
        {"id": f"00000000-0000-7000-8000-{number:012x}"}
        | {name: getattr(text, name) for name in ("trigger", "guideline", "avoid", "not_when")}
        for number, text in enumerate(texts, 1)
    ]
    return build_context(lessons, budget_tokens=1000).text


def episode(*tries: tuple[str, str]) -> Episode:
    steps = [
        EpisodeStep(index=number, action=Action(name="choose_tool", arguments={"tool": tool}), observation=heard)
        for number, (tool, heard) in enumerate(tries, 1)
    ]
    return Episode(task=REQUEST, steps=tuple(steps))


@pytest.mark.parametrize(("use", "avoid"), [("Weather", []), ("Weather", ["Maps", "Chess"]), ("", ["Maps", "Chess"])])
def test_agent_reads_a_lesson_from_the_block(use: str, avoid: list[str]) -> None:
    [read] = read_lessons(block(write_lesson(REQUEST, use=use, avoid=avoid)))

    assert (read.use, list(read.avoid)) == (use, avoid)
    assert read.request in REQUEST


def test_lesson_of_another_kind_is_ignored() -> None:
    assert read_lessons(block(HeuristicText(trigger="a refund is asked for", guideline="Check the fare first."))) == []


def test_agent_follows_a_lesson_about_a_similar_request() -> None:
    agent = ToolAgent(AgentVectors(), TOOLS)
    context = block(write_lesson("Is it going to rain in Lima tomorrow?", use="Chess", avoid=["Weather"]))

    assert agent.choose(REQUEST) == ["Weather"]
    assert agent.choose(REQUEST, context=context) == ["Chess"]


def test_agent_ignores_a_lesson_about_something_else() -> None:
    agent = ToolAgent(AgentVectors(), TOOLS)

    assert agent.choose(REQUEST, context=block(write_lesson("Sort these numbers", use="Chess", avoid=[]))) == [
        "Weather"
    ]


def test_reflector_keeps_accepted_and_rejected_tools() -> None:
    [lesson] = ToolChoiceReflector().reflect(episode(("Maps", "rejected"), ("Weather", "accepted"))).lessons

    assert "Weather" in lesson.text.guideline
    assert lesson.text.avoid == "the tool Maps"
    assert lesson.text.polarity == "mixed"


def test_reflector_recommends_no_tool_if_none_was_accepted() -> None:
    [lesson] = ToolChoiceReflector().reflect(episode(("Maps", "rejected"))).lessons

    assert lesson.text.polarity == "avoid"
    assert "Maps" not in lesson.text.guideline


def test_no_request_is_in_both_splits() -> None:
    data = load()

    assert (len(data.tools), len(data.tests)) == (199, 1200)
    assert {request.text for request in data.tests}.isdisjoint(request.text for request in data.experience)


def test_small_samples_are_about_the_same_tools() -> None:
    data = load()

    learnt = {request.tool for request in sample(data.experience, 40)}

    assert {request.tool for request in sample(data.tests, 60)} == learnt


def test_judge_without_reward_is_wrong_in_three_of_ten_and_always_of_the_same() -> None:
    tries = [(request, tool) for request in load().experience[:100] for tool in list(load().tools)[:20]]

    first = [err_sometimes(request, tool, True) for request, tool in tries]

    assert sum(first) / len(first) == pytest.approx(0.7, abs=0.04)
    assert first == [err_sometimes(request, tool, True) for request, tool in tries]
