"""Whether two writers of one memory block lose an edit, exceed its limit or get other bytes back by an undo.

    uv run python -m bench.blocks [--edits 1000]

Two writers with a connection each write to one block at once, in a scratch database:

- appends: each writer adds lines of its own. Every line has to be there.
- counter: each writer reads a number and sets the next one, naming the revision it read; a refusal is tried again. The
  number has to be that of the edits.
- full: each writer appends until the block is full. No revision may be longer than the limit.
- undo: every revision in effect is brought back and compared with the bytes it had.
"""

import argparse
import hashlib
import logging
import os
import random
import threading
import time
from collections.abc import Callable

os.environ["DJANGO_SETTINGS_MODULE"] = "erl_site.settings"
import django  # isort: skip

django.setup()

from django.db import connection  # noqa: E402

from bench.retrieval_quality import scratch_database  # noqa: E402
from memory.blocks.edits import Edit, NewBlock, append_to_block, create_block, set_block, undo_block  # noqa: E402
from memory.blocks.models import Block  # noqa: E402
from memory.blocks.reading import read_block  # noqa: E402
from memory.errors import BlockFull, ChangedMeanwhile  # noqa: E402
from memory.projects.actors import Actor  # noqa: E402
from memory.projects.models import Project  # noqa: E402

WRITERS = 2
UNDONE = 100


def write_at_once(write: Callable[[int], None]) -> float:
    """Let the writers start together, each with a connection of its own; return the seconds they took."""
    # One more than the writers: this thread starts the clock when all of them are ready.
    barrier, failures = threading.Barrier(WRITERS + 1), []

    def run(writer: int) -> None:
        try:
            barrier.wait()
            write(writer)
        # Raised again below: an error in a thread would otherwise only be printed.
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.monotonic()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.monotonic() - began


def edit_as(writer: int, expected: int | None = None) -> Edit:
    return Edit(by=Actor(label=f"agent:{writer}"), expected_revision=expected)


def make(project: Project, label: str, value: str = "", char_limit: int = 100_000) -> Block:
    return create_block(project, NewBlock(label=label, value=value, char_limit=char_limit), by=Actor.policy("bench"))


def measure_appends(project: Project, edits: int) -> str:
    block = make(project, "appends")

    def write(writer: int) -> None:
        for number in range(edits // WRITERS):
            append_to_block(block, text=f"writer {writer} fact {number}", edit=edit_as(writer))

    seconds = write_at_once(write)
    wanted = {f"writer {writer} fact {number}" for writer in range(WRITERS) for number in range(edits // WRITERS)}
    lost = len(wanted - set(read_block(block).value.split("\n")))
    return f"appends  {edits} edits, {lost} lost, {edits / seconds:.0f} edits/s"


def measure_counter(project: Project, edits: int) -> str:
    block, refused = make(project, "counter", "0"), [0] * WRITERS

    def write(writer: int) -> None:
        done = 0
        while done < edits // WRITERS:
            seen = read_block(block)
            try:
                # Names the revision that was read, so that the other writer's number cannot be overwritten.
                set_block(block, value=str(int(seen.value) + 1), edit=edit_as(writer, seen.number))
                done += 1
            except ChangedMeanwhile:
                refused[writer] += 1

    write_at_once(write)
    lost = edits - int(read_block(block).value)
    return f"counter  {edits} edits, {lost} lost, {sum(refused)} refused and tried again"


def measure_full(project: Project, edits: int) -> str:
    limit = edits
    block, refused = make(project, "full", char_limit=limit), [0] * WRITERS

    def write(writer: int) -> None:
        chance = random.Random(writer)
        # Several times, as a shorter text may still fit after a longer one did not.
        while refused[writer] < 5:
            try:
                append_to_block(block, text="x" * chance.randint(1, 30), edit=edit_as(writer))
            except BlockFull:
                refused[writer] += 1

    write_at_once(write)
    lengths = [len(value) for value in block.revisions.values_list("value", flat=True)]
    over = sum(length > limit for length in lengths)
    return f"full     {len(lengths)} revisions, {over} above the limit of {limit}, longest {max(lengths)}"


def measure_undo(project: Project) -> str:
    chance = random.Random(7)
    signs = " \t\r\n.,aäß€𝒳\u200b\u202e[]{}\"'\\"
    block = make(project, "undo")
    for number in range(UNDONE):
        value = f"{number} " + "".join(chance.choices(signs, k=chance.randint(1, 400)))
        set_block(block, value=value, edit=edit_as(0))
    before = dict(block.revisions.values_list("number", "value"))
    differ = 0
    # Undo one step at a time.
    for number in sorted(before, reverse=True)[1:]:
        undone = undo_block(block, edit=edit_as(1))
        stored = read_block(block)
        same = stored.value.encode() == before[number].encode() == undone.value.encode()
        differ += not same or stored.content_sha256 != hashlib.sha256(before[number].encode()).hexdigest()
    return f"undo     {len(before) - 1} steps back, {differ} with other bytes"


def main() -> None:
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--edits", type=int, default=1000, help="How many edits the two writers make together.")
    options = parser.parse_args()
    with scratch_database():
        project = Project.objects.create(slug="bench-blocks", name="Blocks")
        for measured in (measure_appends, measure_counter, measure_full):
            print(measured(project, options.edits), flush=True)
        print(measure_undo(project), flush=True)


if __name__ == "__main__":
    main()
