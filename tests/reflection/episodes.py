"""Runs and lessons for the tests of reflection."""

import json
import re
from dataclasses import replace
from typing import Any

from memory.heuristics.text import Citation, HeuristicText
from memory.runs.episode import Action, Episode, EpisodeStep
from reflection.reflectors.base import ProposedLesson

_BEGIN = re.compile(r"BEGIN ([0-9a-f]{16}) (.+)")


def make_episode(**overrides: Any) -> Episode:
    """A failed run of three steps on a flight change."""
    episode = Episode(
        task="Move the return flight of reservation EHGLP3 to 2024-05-21 for Mia Li.",
        task_id="flight-change",
        outcome="failure",
        score=0.0,
        outcome_source="environment",
        steps=(
            EpisodeStep(
                index=1,
                thought="I can change it right away.",
                action=Action(
                    name="update_reservation_flights",
                    arguments={"reservation_id": "EHGLP3", "cabin": "economy", "first_name": "Mia"},
                ),
                error="Error: basic economy cannot be modified",
            ),
            EpisodeStep(
                index=2,
                action=Action(name="get_reservation_details", arguments={"reservation_id": "EHGLP3"}),
                observation='{"cabin": "basic_economy", "user": "mia_li_3668"}',
            ),
            EpisodeStep(index=3, thought="I give up.", observation="The customer leaves."),
        ),
    )
    return replace(episode, **overrides)


def make_lesson(**overrides: Any) -> ProposedLesson:
    """A lesson on that run with nothing wrong in it; overrides go to its text or to the lesson itself."""
    own = {"citations", "confidence", "covers_existing", "tools"}
    text = HeuristicText(
        trigger="When a customer asks to change a flight",
        guideline="Call get_reservation_details and read the cabin before update_reservation_flights.",
        rationale="The agent tried to change a fare that cannot be changed.",
        polarity="avoid",
    )
    lesson = ProposedLesson(
        text=replace(text, **{name: value for name, value in overrides.items() if name not in own}),
        citations=(Citation(first_step=1, last_step=2, quote="basic economy"),),
        confidence=0.8,
        tools=("get_reservation_details",),
    )
    return replace(lesson, **{name: value for name, value in overrides.items() if name in own})


def read_blocks(user: str) -> dict[str, list[Any]]:
    """Read a prompt's data back, as strictly as its own rules say; raise AssertionError where they are broken."""
    blocks: dict[str, list[Any]] = {}
    boundary, mark, name = "", "", ""
    for line in user.split("\n"):
        begin = _BEGIN.fullmatch(line)
        if not name and begin:
            assert boundary in ("", begin[1]), "two boundaries"
            boundary, name = begin[1], begin[2]
            assert name not in blocks, "a block occurs twice"
            blocks[name] = []
        elif name and line == f"END {boundary} {name}":
            name = ""
        elif name:
            mark = mark or line[:7]
            assert re.fullmatch(r"[0-9a-f]{6}\|", mark), "a line without a mark"
            assert line.startswith(f"{mark} "), "a line without the mark"
            blocks[name].append(json.loads(line[len(mark) :]))
    assert not name, "a block without an end"
    return blocks
