"""The rules write English only, and say so for runs in other languages."""

import pytest

from reflection.reflectors.rules import RulesReflector
from reflection.reflectors.rules.language import ENGLISH_ONLY, is_english
from tests.reflection.rules_runs import call, make_run, reflect_on

GERMAN = "Storniere bitte alle Bestellungen des Kunden und schreibe eine Mail."
CORRECTED = (call("book", "Error: invalid day", day="1/2/24"), call("book", day="2024-01-02"))


@pytest.mark.parametrize(
    "task",
    [
        GERMAN,
        "取消所有订单并发送邮件",
        "Annule toutes les commandes du client et envoie un message.",
        "Cancela todos los pedidos del cliente y envía un correo.",
        "Отмени все заказы клиента",
    ],
)
def test_other_languages_are_not_taken_for_english(task: str) -> None:
    assert not is_english(make_run(task=task))


@pytest.mark.parametrize(
    "task",
    ["Cancel all of the customer's orders.", "Fix it", "Fix de/main.py: die() is not called and la() fails", ""],
)
def test_english_and_texts_too_short_to_tell_are_english(task: str) -> None:
    assert is_english(make_run(task=task))


def test_lesson_from_a_run_in_another_language_says_so() -> None:
    assert reflect_on(make_run(*CORRECTED, task=GERMAN, outcome="success")).text.rationale.endswith(ENGLISH_ONLY)


def test_lesson_from_a_run_in_english_does_not_speak_of_languages() -> None:
    assert (
        ENGLISH_ONLY
        not in reflect_on(
            make_run(*CORRECTED, task="Book the day that the user wants.", outcome="success")
        ).text.rationale
    )


def test_note_in_another_language_is_quoted_and_not_turned_into_advice() -> None:
    note = "Ich habe die Buchung storniert, bevor ich die Tarifklasse geprüft hatte."

    result = RulesReflector().reflect(make_run(call("look", "ein Raum"), task=GERMAN, mistakes=(note,)))

    assert result.lessons == ()
    assert note in result.skip_reason
    assert result.skip_reason.endswith(ENGLISH_ONLY)
