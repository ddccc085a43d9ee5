"""Forms in which secrets stand in runs, and whether one survives redaction.

`tests/data/redaction/forms.jsonl` holds the forms the rules were written for; `held_out.jsonl` those that were written
down before the rules and not looked at while they were made. Each line has the value given and the secrets in it.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parent.parent / "data" / "redaction"

_DIGEST = re.compile(r"(?<=\[REDACTED:)[\w-]+:[0-9a-f]{8}\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """A value with secrets in it, and what the form is called."""

    form: str
    given: Any
    secrets: list[str]


def read_forms(name: str) -> list[Form]:
    """Read `forms` or `held_out`."""
    return [Form(**json.loads(line)) for line in (_FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def survives(secret: str, value: Any) -> bool:
    """Return whether half of a secret can still be read. The digits in a mark may equal three of a code by chance."""
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    text = _DIGEST.sub("]", text)
    middle = len(secret) // 2
    return secret[: middle + 1] in text or secret[middle:] in text
