"""Measure what redaction finds and what it takes by mistake: `python -m tests.bench.redaction_recall [PATH …]`.

Prints the recall on the two lists of forms with what was missed, what was taken from the given files except e-mail
addresses, and the time for a megabyte of them. A path is a file or a folder of public runs, none of which holds a
secret; without one the tests' own data are read.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from time import process_time
from typing import Any

from django.conf import settings

if not settings.configured:
    settings.configure(SECRET_KEY=os.urandom(16).hex())

from memory.redaction import redact
from tests.memory.redaction_forms import read_forms, survives

_DATA = Path(__file__).resolve().parent.parent / "data"
_ROUNDS = 5


def read_values(path: Path) -> list[Any]:
    """Return what a file holds: JSON, one JSON value a line, or text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return [json.loads(text)] if path.suffix in {".json", ".traj"} else [text]


def list_files(paths: list[Path]) -> list[Path]:
    files = [found for path in paths for found in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [path for path in files if path.suffix in {".json", ".jsonl", ".traj", ".tsv", ".md", ".txt"}]


def seconds(values: list[Any]) -> float:
    """Return the least time of this process to redact the values, of a few rounds."""
    times = []
    for _ in range(_ROUNDS):
        start = process_time()
        for value in values:
            redact(value)
        times.append(process_time() - start)
    return min(times)


def main(paths: list[Path]) -> None:
    for name in ("forms", "held_out"):
        forms = read_forms(name)
        missed = [form.form for form in forms if any(survives(each, redact(form.given).value) for each in form.secrets)]
        print(f"{name}: {len(forms) - len(missed)} of {len(forms)} found; missed: {', '.join(missed) or 'none'}")
    files = [path for path in list_files(paths) if path.parent.name != "redaction"]
    values = [value for path in files for value in read_values(path)]
    megabytes = sum(len(json.dumps(value, ensure_ascii=False).encode()) for value in values) / 1e6
    taken = sum((Counter(redact(value).counts) for value in values), Counter[str]())
    emails = taken.pop("email", 0)
    print(
        f"{len(files)} files, {megabytes:.2f} MB: {emails} e-mail addresses, {taken.total()} other places {dict(taken)}"
    )
    print(f"{1000 * seconds(values) / megabytes:.1f} ms for a megabyte (least of {_ROUNDS}, time of the process)")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [_DATA])
