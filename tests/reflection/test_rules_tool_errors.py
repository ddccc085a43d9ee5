"""Errors in the answers of tools are recognised and generalised."""

import pytest

from memory.runs.episode import EpisodeStep
from reflection.reflectors.rules.errors import read_error, shape_of


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        ("Error: payment method not found", "Error: payment method not found"),
        ("Invalid action!", "Invalid action!"),
        ("Nothing happens.", "Nothing happens."),
        ("ls: cannot access 'x': No such file or directory", "ls: cannot access 'x': No such file or directory"),
        ("404 Not Found", "404 Not Found"),
        ('{"error": "no such user"}', "no such user"),
        ('{"error": {"code": 7, "message": "quota used up"}}', "quota used up"),
        ('{"success": false, "message": "date is missing"}', "date is missing"),
        ('Traceback (most recent call last):\n  File "x"\nValueError: bad date', "ValueError: bad date"),
        ("Error: first line\nsecond line", "Error: first line"),
    ],
)
def test_read_error_finds_the_message(observation: str, text: str) -> None:
    error = read_error(EpisodeStep(index=1, observation=observation))

    assert error is not None
    assert error.text == text


@pytest.mark.parametrize(
    "observation",
    [
        "",
        "[]",
        '{"status": "ok"}',
        '{"error": null, "items": [1]}',
        "The errors of the past are listed in chapter two.",
        "You have clicked blue.",
        "I cannot find the reservation.",
    ],
)
def test_read_error_ignores_other_answers(observation: str) -> None:
    assert read_error(EpisodeStep(index=1, observation=observation)) is None


def test_read_error_prefers_the_error_of_the_step() -> None:
    error = read_error(EpisodeStep(index=1, observation="Invalid action!", error="time-out after 3 s"))

    assert error is not None
    assert error.text == "time-out after 3 s"


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("Error: not enough seats on flight HAT088", "not enough seats on flight …"),
        ("total price is 1203, but paid 833", "total price is … but paid …"),
        ("unknown user 'ana.b' in /srv/data/x.json", "unknown user … in …"),
        ("mail ana@example.org is not known", "mail … is not known"),
        ("payment method not found", "payment method not found"),
        ("the date must be in the form YYYY-MM-DD", "the date must be in the form YYYY-MM-DD"),
        ("You need to take the red potato first.", "You need to take the … first"),
        ("Error:", "an error"),
    ],
)
def test_shape_of_an_error_holds_no_values(text: str, shape: str) -> None:
    assert shape_of(text) == shape
