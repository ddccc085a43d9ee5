"""What is asked for once more, and what is not (reliability B9)."""

import json

import pytest

from reflection.reflectors.checks import is_rejected, verify
from reflection.reflectors.llm_answer import UnusableAnswer
from tests.reflection.episodes import make_episode, read_blocks
from tests.reflection.llm_reflector.reflecting import reflect
from tests.scripted_answers import Behaviour, answer, cut_off, empty, lesson, nul, prose, refuses
from tests.scripted_provider import ScriptedProvider


@pytest.mark.parametrize(
    "unusable",
    [
        cut_off(),
        prose(),
        empty(),
        nul(),
        answer(lesson(surprise=1)),
        answer(lesson(trigger="")),
        answer(lesson(covers_existing="H9")),
        answer(json.dumps(lesson()) + " Done."),
    ],
    ids=["cut_off", "prose", "empty", "nul", "extra_member", "no_trigger", "label", "trailing_words"],
)
def test_unusable_answer_is_asked_for_once_more(unusable: Behaviour, server: ScriptedProvider) -> None:
    server.script(unusable, answer(lesson()))

    result = reflect()

    assert len(result.lessons) == 1
    assert len(server.requests) == 2
    assert "WHY IT COULD NOT BE USED" in read_blocks(server.requests[1].user_text)


@pytest.mark.parametrize(
    ("unusable", "code"),
    [(cut_off(), "cut_off"), (prose(), "not_json"), (empty(), "empty"), (nul(), "not_storable")],
    ids=["cut_off", "prose", "empty", "nul"],
)
def test_twice_unusable_is_given_up(unusable: Behaviour, code: str, server: ScriptedProvider) -> None:
    server.script(unusable, unusable, answer(lesson()))

    with pytest.raises(UnusableAnswer) as caught:
        reflect()

    assert (caught.value.code, caught.value.transient) == (code, False)
    assert len(server.requests) == 2


def test_refusal_is_not_asked_again(server: ScriptedProvider) -> None:
    server.script(refuses(), answer(lesson()))

    with pytest.raises(UnusableAnswer) as caught:
        reflect()

    assert caught.value.code == "refusal"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "changed",
    [{"trigger": "When " + "x" * 300}, {"action": "y" * 700}, {"evidence_steps": []}, {"evidence_steps": [99]}],
    ids=["long_trigger", "long_action", "no_evidence", "no_such_step"],
)
def test_lesson_that_can_be_mended_is_asked_for_once_more(changed: dict[str, object], server: ScriptedProvider) -> None:
    server.script(answer(lesson(**changed)), answer(lesson()))

    (proposed,) = reflect().lessons

    assert verify(proposed, make_episode()) == ()
    assert len(server.requests) == 2


@pytest.mark.parametrize("second", [answer(lesson(action="y" * 700)), prose()], ids=["same_again", "prose"])
def test_lesson_that_was_not_mended_is_left_to_the_checks(second: Behaviour, server: ScriptedProvider) -> None:
    server.script(answer(lesson(action="y" * 700)), second)

    (proposed,) = reflect().lessons

    assert [str(finding.severity) for finding in verify(proposed, make_episode())] == ["mend"]


def test_second_try_does_not_help_to_hide_a_repetition(server: ScriptedProvider) -> None:
    repeated = f"{lesson()['trigger']}\n{lesson()['action']}"
    server.script(answer(lesson()), answer(lesson()))

    (proposed,) = reflect(make_episode(injected=(repeated,))).lessons

    assert len(server.requests) == 1
    assert is_rejected(verify(proposed, make_episode(injected=(repeated,))))
