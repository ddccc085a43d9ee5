"""Measure what redaction finds and what it takes by mistake: `python -m bench.redaction_recall [PATH …]`.

Prints the recall on made-up secrets of every format and on the two lists of forms, with what was missed; what was taken
from the given files besides e-mail addresses, each with the words before it; and the time for a megabyte. A path is a
file or a folder of public runs; without one the tests' own are read.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

from django.conf import settings

if not settings.configured:
    settings.configure(SECRET_KEY=os.urandom(16).hex())

from memory.redaction import redact, redact_text
from memory.redaction.search import find_secrets
from tests.memory.redaction_forms import read_forms, survives
from tests.memory.synthetic_secrets import plant_secrets

_DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
_SUFFIXES = {".json", ".jsonl", ".traj", ".tsv", ".md", ".txt"}
_ROUNDS = 9
_WORDS_BEFORE = 40  # characters


def read_values(path: Path) -> list[Any]:
    """Return what a file holds: JSON, one JSON value a line, or text. What should be JSON and is not counts as text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [read_value(line) for line in text.splitlines()]
    return [read_value(text) if path.suffix in {".json", ".traj"} else text]


def read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # A transcript that was cut off, for example.
        return text


def list_files(paths: list[Path]) -> list[Path]:
    """Return the files and those in the folders, without the forms, which are full of secrets."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [path for path in files if path.suffix in _SUFFIXES and path.parent.name != "redaction"]


def milliseconds(work: Callable[[], Any]) -> float:
    """Return the least time of this process of a few rounds; other processes only ever add to it."""
    times = []
    for _ in range(_ROUNDS):
        start = process_time()
        work()
        times.append(process_time() - start)
    return 1000 * min(times)


def print_recall() -> None:
    planted = plant_secrets(seed=7, per_kind=50)
    redacted = sum(sample.needle[-8:] not in redact_text(sample.text) for sample in planted)
    print(f"made-up secrets: {redacted:,} of {len(planted):,} found")
    for name in ("forms", "held_out"):
        forms = read_forms(name)
        missed = [
            form.form for form in forms if any(survives(secret, redact(form.given).value) for secret in form.secrets)
        ]
        print(f"{name}: {len(forms) - len(missed)} of {len(forms)} found; missed: {', '.join(missed) or 'none'}")


def print_taken(values: list[Any]) -> None:
    taken: Counter[str] = Counter()
    emails = 0
    for value in values:
        text = json.dumps(value, ensure_ascii=False)
        for span in find_secrets(text):
            emails += span.kind == "email"
            if span.kind != "email":
                taken[f"{span.kind}: {text[max(0, span.start - _WORDS_BEFORE) : span.end]}"] += 1
    print(f"taken: {emails} e-mail addresses and {taken.total()} others")
    for what, times in taken.most_common():
        print(f"  {times} x {what}")


def main(paths: list[Path]) -> None:
    print_recall()
    files = list_files(paths)
    values = [value for path in files for value in read_values(path)]
    text = json.dumps(values, ensure_ascii=False)
    megabytes = len(text.encode()) / 1e6
    print(f"{len(files)} files, {megabytes:.2f} MB")
    print_taken(values)
    apart, whole = milliseconds(lambda: [redact(value) for value in values]), milliseconds(lambda: redact(values))
    as_text = milliseconds(lambda: redact_text(text))
    print(
        f"ms for a megabyte, least of {_ROUNDS}: {whole / megabytes:.1f} as one value, {apart / megabytes:.1f} run by "
        f"run, {as_text / megabytes:.1f} as one text"
    )


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [_DATA])
