"""Show characters that are invisible to a person but not to a model (reliability D5)."""

import re
import unicodedata

_KEPT = {"\n", "\t", " "}
_HIDDEN = {"Cc", "Cf", "Co", "Cn", "Zl", "Zp"}
# Blank, although Unicode classes them as letters or marks
_BLANK = (
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
    | set(range(0xFE00, 0xFE10))
    | set(range(0xE0100, 0xE01F0))
)
_MAY_BE_HIDDEN = re.compile(r"[^\n\t -~]")  # all others are printable ASCII


def is_hidden(character: str) -> bool:
    """Return whether a character is a control, bidirectional, tag, zero-width or other invisible one."""
    if character in _KEPT:
        return False
    return unicodedata.category(character) in _HIDDEN or ord(character) in _BLANK


def is_visible(text: str) -> bool:
    """Return whether a text has any visible character."""
    return any(not is_hidden(character) and not character.isspace() for character in text)


def show_hidden(text: str) -> str:
    """Replace hidden characters by their code points, for example ⟨U+202E⟩."""
    return _MAY_BE_HIDDEN.sub(_write_code_point, text)


def _write_code_point(found: re.Match[str]) -> str:
    character = found[0]
    return f"⟨U+{ord(character):04X}⟩" if is_hidden(character) else character
