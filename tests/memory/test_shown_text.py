"""What reviewers are shown is in the order that agents read, and what is not what it looks like is marked."""

from typing import Any

import pytest
from django.template import Context, Template
from django.test import Client
from django.urls import reverse

from memory.projects.models import Project
from memory.redaction.visible_text import find_oddities, show_text
from tests.factories import make_heuristic, make_member


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("over א 5 < 1000 ב EUR", "over \u2068א\u2069 5 < 1000 \u2068ב\u2069 EUR"),
        ("שלום עולם 7", "\u2068שלום עולם\u2069 7"),
        ("المبلغ 5 < 1000 ريال", "\u2068المبلغ\u2069 5 < 1000 \u2068ريال\u2069"),
        ("٥ < ١٠٠٠", "\u2068٥\u2069 < \u2068١٠٠٠\u2069"),
        ("a\u2067b\u2069", "a⟨U+2067⟩b⟨U+2069⟩"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("Grüße aus Kyōto, 東京", "Grüße aus Kyōto, 東京"),
    ],
)
def test_text_is_shown_in_the_order_in_which_it_is_read(text: str, shown: str) -> None:
    assert show_text(text) == shown


@pytest.mark.parametrize(
    ("text", "part", "why"),
    [
        ("Pay with раypal", "раypal", "mixes Cyrillic and Latin letters"),
        ("Call deleтe_account", "deleтe", "mixes Cyrillic and Latin letters"),
        ("Open gοogle", "gοogle", "mixes Greek and Latin letters"),
        ("Ask the соре team", "соре", "looks Latin, but its letters are Cyrillic"),
        ("Refund א at once", "א", "is written from right to left; agents get the text in the order shown here"),
    ],
)
def test_what_is_not_what_it_looks_like_is_found(text: str, part: str, why: str) -> None:
    assert [(each.part, each.why) for each in find_oddities(text)] == [(part, why)]


@pytest.mark.parametrize(
    "text",
    [
        "Check the fare class first.",
        "Спросите номер брони у клиента, затем вызовите API get_user.",
        "Нажмите ОК и ждите HTTP-ответа",
        "Ρωτήστε τον πελάτη για το API",
        "Measure Δt in µs and keep λ below 5Ω",
        "用户的 API 密钥",
        "naïve café Łódź",
    ],
)
def test_ordinary_text_of_any_language_gets_no_warning(text: str) -> None:
    assert find_oddities(text) == []


def test_code_points_are_offered_and_markup_is_escaped() -> None:
    html = Template("{% load lesson_text %}{% oddities text %}").render(Context({"text": "<b>раypal</b>"}))

    assert "р U+0440 а U+0430" in html
    assert "<b>" not in html


@pytest.mark.django_db
@pytest.mark.parametrize("field", ["trigger", "guideline", "avoid", "not_when"])
def test_desk_isolates_and_warns_in_each_field(field: str, client: Client, project: Project) -> None:
    words: dict[str, Any] = {field: "over א 5 < 1000 ב EUR by раypal"}
    heuristic = make_heuristic(project=project, **words)
    client.force_login(make_member("ana", project=project, permissions=["view_heuristic", "review_heuristic"]))

    page = client.get(reverse("admin:inbox_item", args=["lesson", heuristic.pk])).content.decode()

    assert "\u2068א\u2069 5 &lt; 1000 \u2068ב\u2069" in page
    assert "mixes Cyrillic and Latin letters" in page
