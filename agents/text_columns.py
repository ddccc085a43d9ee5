"""What an erasure does with the text in the tables of this app (memory/trust/text_columns.py)."""

from memory.trust.text_columns import Columns, Fate

_MACHINE = "written by ERL: codes, names, hashes, numbers"
_SIGNED = "labels of accounts, keys and policies"

TEXT_COLUMNS = {
    "agents_tool": (
        Columns("name", Fate.NO_TEXT, "a name that a client or a person chose"),
        Columns("created_by", Fate.NO_TEXT, _SIGNED),
    ),
    "agents_toolrevision": (
        Columns(
            "description source parameters uses examples limits request",
            Fate.KEPT,
            "code that a person wrote or approved",
        ),
        Columns("kind runtime sha256 status", Fate.NO_TEXT, _MACHINE),
        Columns("created_by decided_by", Fate.NO_TEXT, _SIGNED),
    ),
}
