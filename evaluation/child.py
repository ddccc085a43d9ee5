"""The process in which suites run. It knows the sandbox database and no other (`python -m evaluation.child`).

It reads one JSON object from standard input, `{"options": …, "todo": [[suite, unit], …]}`, and writes one JSON object
a line: progress, units as they are finished, and at the end "done" or "refused" with a sentence.
"""

import json
import sys
from typing import Any, TextIO

import django

LOCK = 0x45524C  # of the sandbox: one evaluation at a time


def main(stdin: TextIO, stdout: TextIO) -> int:
    """Do what is asked and return the exit code."""
    django.setup()
    from django.db import DatabaseError

    from evaluation.errors import EvaluationError

    def say(**event: Any) -> None:
        stdout.write(json.dumps(event) + "\n")
        stdout.flush()

    job = json.load(stdin)
    try:
        _run(job, say)
    except EvaluationError as error:
        say(event="refused", says=str(error))
        return 1
    except DatabaseError as error:
        say(event="refused", says=f"The sandbox database refused: {str(error).splitlines()[0]}")
        return 1
    say(event="done")
    return 0


def _run(job: dict[str, Any], say: Any) -> None:
    from evaluation.remembering import remember_vectors
    from evaluation.sandbox import empty_sandbox, hold_sandbox, prepare_sandbox
    from evaluation.suites.base import Options
    from evaluation.suites.registry import get_suite
    from memory.ids import repeat_ids

    options = Options.from_json(job["options"])
    hold_sandbox(LOCK)
    say(event="progress", what="preparing the sandbox", done=0, total=1)
    prepare_sandbox()
    remember_vectors()
    for suite, unit in job["todo"]:
        empty_sandbox()
        repeat_ids(f"{suite}:{unit}:{options.seed}")

        def progress(what: str, done: int, total: int, *, suite: str = suite) -> None:
            say(event="progress", what=f"{suite}: {what}", done=done, total=total)

        result = get_suite(suite).run_unit(unit, options, progress)
        say(event="unit", suite=suite, unit=unit, result=result)


if __name__ == "__main__":
    sys.exit(main(sys.stdin, sys.stdout))
