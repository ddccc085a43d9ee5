"""Proposes the lessons of files, each once."""

import argparse
import sys
from collections import Counter
from pathlib import Path

from erl_client.client import ERL
from erl_client.lesson_files.entries import LessonFile, as_proposal
from erl_client.plain import show_hidden


def find_known(erl: ERL) -> set[str]:
    """Return the ids under which lessons were imported, and the labels of all, whatever was decided on them."""
    lessons = list(erl.api.list_all("/heuristics"))
    ids = {lesson["external_id"] for lesson in lessons} | {f"H-{lesson['id'][-8:]}" for lesson in lessons}
    return ids - {""}


def import_lessons(
    erl: ERL, file: Path, lessons: LessonFile, options: argparse.Namespace, known: set[str]
) -> "Counter[str]":
    """Propose the lessons of a file that are not there yet. Nothing is served before a person approves it."""
    print(f"{file}: {lessons.summary()}")
    for problem in lessons.problems:
        print(f"{file}, {problem}", file=sys.stderr)
    counts = Counter(refused=len(lessons.problems))
    for entry in lessons.entries:
        body = as_proposal(entry, file=str(file), format=lessons.format, family=options.family)
        if {body["external_id"], entry.label} & known:
            counts["known"] += 1
            continue
        known.add(body["external_id"])
        refusal = None if options.dry_run else erl.api.find_refusal("/heuristics", body)
        counts["refused" if refusal else "lesson"] += 1
        if refusal:
            print(f"{file}, {entry.place}: {refusal}", file=sys.stderr)
        elif options.dry_run:
            print(show_hidden(f"{entry.place}: When {entry.trigger}: {' '.join(entry.guideline.split())}"))
    return counts
