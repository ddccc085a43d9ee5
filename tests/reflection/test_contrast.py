"""Where two runs of a task part, and several tries as one run."""

import json
from dataclasses import replace
from typing import Any

from memory.runs.episode import Action, Episode, EpisodeStep
from reflection.reflectors.base import NearHeuristic
from reflection.reflectors.contrast import find_contrasts, find_try, join_tries
from reflection.reflectors.llm_answer import answer_schema
from reflection.reflectors.llm_prompt import build_prompt
from tests.reflection.episodes import read_blocks

TASK = "Change the return flight; the user does not know the reservation id."


def make_run(*calls: tuple[str, Any], outcome: str = "failure", task: str = TASK) -> Episode:
    """A run of these calls, each a tool with the value of its only argument."""
    steps = [
        EpisodeStep(index=number, action=Action(name=name, arguments={"value": value}), observation="ok")
        for number, (name, value) in enumerate(calls, 1)
    ]
    return Episode(task=task, steps=tuple(steps), outcome=outcome, score=float(outcome == "success"), task_id="air")


def say(words: str) -> tuple[str, str]:
    return "respond", f"{words} Could you please give me the reservation id?"


LOOK = ("get_user", "mia_li")
READ = ("get_reservation", "EHGLP3")


def contrast(run: Episode, *family: Episode) -> list[dict[str, Any]]:
    return list(find_contrasts(run, family).values())


def test_runs_part_at_the_first_call_that_differs() -> None:
    run = make_run(LOOK, READ, ("book", "HAT1"))

    (shown,) = contrast(run, make_run(LOOK, READ, ("refuse", "no"), outcome="success"))

    assert (shown["parts_at_step"], shown["alike_before"], shown["outcome"]) == (3, 2, "success")
    assert shown["did_instead"] == [{"tool": "refuse", "arguments": {"value": "no"}, "observation": "ok"}]
    assert shown["never_called"] == ["book"]


def test_other_words_to_the_user_are_no_difference() -> None:
    run = make_run(say("I see."), say("Sorry, I need it."), say("Please ask somebody else."))
    other = make_run(say("Hello, I can help."), LOOK, say("Thanks for waiting."), READ, outcome="success")

    (shown,) = contrast(run, other)

    assert [step["tool"] for step in shown["did_instead"]] == ["get_user", "get_reservation"]


def test_words_of_a_run_that_called_less_are_shown() -> None:
    refusal = say("A flight that was flown cannot be changed.")
    run = make_run(LOOK, READ, say("I see."), ("book", "HAT1"))

    (shown,) = contrast(run, make_run(LOOK, READ, refusal, outcome="success"))

    assert [step["arguments"] for step in shown["did_instead"]] == [{"value": refusal[1]}]
    assert shown["never_called"] == ["book"]


def test_runs_that_ended_the_same_way_are_no_contrast() -> None:
    assert contrast(make_run(LOOK), make_run(READ)) == []


def test_run_that_succeeded_is_compared_with_those_that_failed() -> None:
    (shown,) = contrast(make_run(LOOK, READ, outcome="success"), make_run(READ))

    assert (shown["outcome"], shown["never_called"]) == ("failure", ["get_user"])


def test_same_greeting_is_not_the_same_task() -> None:
    hello = replace(make_run(LOOK, LOOK, READ), task="Hi there!")

    (shown,) = contrast(hello, replace(make_run(LOOK, LOOK, outcome="success"), task="Hi there!"))

    assert shown["task"] == "Hi there!"


def test_other_task_of_the_family_is_compared_by_its_tools() -> None:
    begin = ("get_user", "omar"), ("get_user", "ada")
    other = make_run(*begin, ("calculate", "1 + 2"), outcome="success", task="Another change.")

    (shown,) = contrast(make_run(LOOK, LOOK, READ), other)

    assert (shown["task"], shown["parts_at_step"]) == ("Another change.", 3)


def test_other_task_that_goes_another_way_from_the_start_is_no_contrast() -> None:
    other = make_run(READ, ("calculate", "1 + 2"), ("refuse", "no"), outcome="success", task="Another change.")

    assert contrast(make_run(LOOK, READ), other) == []


def test_only_the_arguments_that_differ_are_shown() -> None:
    def pay(card: str, outcome: str) -> Episode:
        run = make_run(LOOK, READ, outcome=outcome)
        action = Action(name="book", arguments={"passengers": ["x" * 300], "payment_id": card})
        return replace(run, steps=(*run.steps[:-1], replace(run.steps[-1], action=action)))

    (shown,) = contrast(pay("credit_card_1", "failure"), pay("certificate_7", "success"))

    (step,) = shown["did_instead"]
    assert (step["arguments"], step["other_arguments"]) == ({"payment_id": "certificate_7"}, "as in step 2")


def test_answer_in_a_contrast_keeps_what_decided() -> None:
    rules = [f"Clause {number}: the desk keeps a record of every visit." for number in range(60)]
    rules[20] = "Clause 20: basic economy cannot be changed, so refuse."
    run = make_run(LOOK, ("book", "basic economy"), task="Move a basic economy flight.")
    other = make_run(LOOK, ("read_policy", "fares"), ("refuse", "no"), outcome="success", task=run.task)
    other = replace(
        other, steps=(other.steps[0], replace(other.steps[1], observation="\n".join(rules)), *other.steps[2:])
    )
    run = replace(run, contrasts=tuple(contrast(run, other)))
    prompt = build_prompt(run, near=(), max_lessons=1, json_schema=answer_schema(1))

    (shown,) = read_blocks(prompt.request.user)["RUNS THAT ENDED OTHERWISE"]

    read = shown["did_instead"][0]["observation"]
    assert "basic economy cannot be changed" in read
    assert len(read) < 500


def test_answer_in_json_in_a_contrast_keeps_the_members_that_decided() -> None:
    fare = {"notes": ["The desk keeps a record of every visit."] * 20, "changeable": "never", "seats": list(range(90))}
    run = make_run(LOOK, ("book", "basic economy"), task="Move a flight, where it is changeable.")
    other = make_run(LOOK, ("read_fare", "HAT1"), ("refuse", "no"), outcome="success", task=run.task)
    other = replace(
        other, steps=(other.steps[0], replace(other.steps[1], observation=json.dumps(fare)), *other.steps[2:])
    )
    run = replace(run, contrasts=tuple(contrast(run, other)))
    prompt = build_prompt(run, near=(), max_lessons=1, json_schema=answer_schema(1))

    (shown,) = read_blocks(prompt.request.user)["RUNS THAT ENDED OTHERWISE"]

    assert shown["did_instead"][0]["observation"]["changeable"] == "never"


def test_contrast_stands_redacted_and_cut_in_the_prompt() -> None:
    other = make_run(LOOK, ("pay", {"token": "sk-proj-" + "a1B2c3D4" * 6}), outcome="success")
    other = replace(other, steps=(other.steps[0], replace(other.steps[1], observation="END TRAJECTORY " * 100)))
    run = make_run(LOOK, READ)
    near: tuple[NearHeuristic, ...] = ()

    run = replace(run, contrasts=tuple(find_contrasts(run, [other]).values()))
    prompt = build_prompt(run, near=near, max_lessons=1, json_schema=answer_schema(1))

    (shown,) = read_blocks(prompt.request.user)["RUNS THAT ENDED OTHERWISE"]
    assert "[REDACTED" in str(shown["did_instead"][0]["arguments"])
    assert len(shown["did_instead"][0]["observation"]) < 400


def test_tries_become_one_run_whose_steps_tell_their_try() -> None:
    first = make_run(LOOK, READ, ("book", "HAT1"))
    second = make_run(LOOK, ("calculate", "1"), ("refuse", "no"), outcome="success")

    run = join_tries([first, second])

    assert [step.index for step in run.steps] == [1, 2, 3, 5, 6]
    assert run.outcome == "mixed"
    assert [note["steps"] for note in run.tries] == ["1 to 3", "5 to 6"]
    assert run.tries[1]["left_out"].startswith("its first 1 steps")
    assert find_try([first, second], 5) == (1, 2)
