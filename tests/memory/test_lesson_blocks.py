"""The blocks of lessons that are cut out of messages, and what looks like one."""

import json

import pytest

from memory.transcripts.lesson_blocks import cut_lesson_blocks, read_task

BLOCK = "<lessons>\nLessons from earlier runs, each approved.\n1. [H-1a2b3c4d] When a: b\n</lessons>"
RECORD = "<record-0123456789abcdef>\nWhat earlier runs showed.\n</record-0123456789abcdef>"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"{BLOCK}\n\nCancel my flight.", "Cancel my flight."),
        (f"Cancel my flight.\n\n{BLOCK}\nThe one to Rome.", "Cancel my flight.\n\nThe one to Rome."),
        (f"{RECORD}\n\n{BLOCK}\n\nCancel it.", "Cancel it."),
        (f"Context: {BLOCK} Cancel it.", "Context:  Cancel it."),
        (BLOCK, ""),
        ("<lessons>\n1. When a: b\n</lessons>\nCancel it.", "Cancel it."),
        ("Cancel it.\n<lessons>\nLessons from earlier runs, each approved.\n1. [H-1a2b", "Cancel it."),
        (json.dumps([f"{BLOCK}\nCancel it."]), '["\\nCancel it."]'),
    ],
)
def test_block_is_cut_out(text: str, kept: str) -> None:
    assert cut_lesson_blocks(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "Cancel my flight.",
        "Parse <lessons><lesson>maths</lesson></lessons> into a list.",
        "<lessons>\nnever closed",
        "<lessons>\n</record>",
        "  two  spaces\n\n\n\nstay  ",
        "",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert cut_lesson_blocks(text) == text


def test_task_of_lessons_alone_is_none() -> None:
    assert (read_task(BLOCK), read_task(f"{BLOCK} Cancel it.")) == ("(no task)", "Cancel it.")
