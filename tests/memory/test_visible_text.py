"""Making hidden characters visible."""

import pytest

from memory.redaction.visible_text import show_hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("line\nbreak\tand tab", "line\nbreak\tand tab"),
        ("Zürich – “quoted” 東京 🙂", "Zürich – “quoted” 東京 🙂"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\u200bb", "a⟨U+200B⟩b"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\ufeffstart", "⟨U+FEFF⟩start"),
        ("bell\x07", "bell⟨U+0007⟩"),
        ("blank\u3164", "blank⟨U+3164⟩"),
        ("variation\ufe0f", "variation⟨U+FE0F⟩"),
        ("soft\u00adhyphen", "soft⟨U+00AD⟩hyphen"),
    ],
)
def test_show_hidden_names_what_cannot_be_seen(text: str, shown: str) -> None:
    assert show_hidden(text) == shown
