"""From candidates to an answer."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.candidates import Candidate
from memory.retrieval.limits import AnswerLimits
from memory.retrieval.question import Question
from memory.retrieval.ranking import (
    FLOORS,
    LISTED_SHARE,
    RELEVANT_SHARE,
    TOO_FOREIGN,
    TOO_WEAK,
    Ranked,
    rank_as_drawn,
)
from memory.retrieval.ranking import rank as rank_candidates
from memory.retrieval.scoring import Parts
from memory.retrieval.subtasks import MAX_PARTS, split_task
from memory.retrieval.tools import ToolsOnOffer


def make_candidate(number: int = 1, **overrides: Any) -> Candidate:
    """Make a candidate; those of different numbers say different things."""
    fields: dict[str, Any] = {
        "heuristic_id": UUID(int=number),
        "number": 1,
        "content_sha256": "0" * 64,
        "trigger": "t",
        "guideline": f"g{number}",
        "avoid": "",
        "not_when": "",
        "rationale": "",
        "polarity": "mixed",
        "scope": "task_family",
        "task_id": "",
        "tags": [],
        "support": 0,
        "usefulness": 0.5,
        "client": "agent",
        "parts": Parts(0.25, 0.15, 0.0, 0.0),
        "similarity": 0.4,
        "score": 1.0,
        "matched_task": "",
        "matched_run": None,
        "vector": None,
    }
    return Candidate(**fields | overrides)


def as_sent(*values: float) -> bytes:
    half = np.array(values, ">f2")
    return len(half).to_bytes(2, "big") + b"\0\0" + half.tobytes()


def rank(candidates: Sequence[Candidate], *, task: str = "Do it.", task_id: str = "", **overrides: Any) -> list[Ranked]:
    question = Question(project=Project(), task=task, task_id=task_id, by=Actor(label="test"))
    options: dict[str, Any] = {"top_k": 9, "mode": "hybrid"} | overrides
    return rank_candidates(candidates, question, **options)


def order(*candidates: Candidate, **options: Any) -> list[int]:
    return [place.candidate.heuristic_id.int for place in rank(candidates, **options)]


def test_rank_puts_the_higher_score_first() -> None:
    assert order(make_candidate(1, score=0.5), make_candidate(2, score=0.6)) == [2, 1]


def test_rank_breaks_ties_the_same_way_every_time() -> None:
    assert order(make_candidate(2), make_candidate(1)) == order(make_candidate(1), make_candidate(2)) == [1, 2]


def test_rank_prefers_the_family_among_near_equals() -> None:
    candidates = (make_candidate(1, task_id="other", score=1.05), make_candidate(2, task_id="mine"))
    assert order(*candidates, task_id="mine") == [2, 1]


def test_rank_lets_another_family_win_where_it_fits_much_better() -> None:
    candidates = (make_candidate(1, task_id="other", score=2), make_candidate(2, task_id="mine"))
    assert order(*candidates, task_id="mine") == [1, 2]


def test_rank_does_not_hold_another_family_against_a_project_wide_lesson() -> None:
    candidates = (make_candidate(1, task_id="other"), make_candidate(2, task_id="other", scope="project", score=0.99))
    assert order(*candidates, task_id="mine") == [2, 1]


def test_rank_never_moves_a_lesson_far_by_its_support() -> None:
    assert order(make_candidate(1, support=1_000_000), make_candidate(2, score=1.03)) == [2, 1]


@pytest.mark.parametrize("words", ["Look up fare 2.", "Look up fare 1."])
def test_rank_keeps_a_lesson_that_says_or_means_the_same_as_a_better_one(words: str) -> None:
    twins = make_candidate(1, guideline="Look up fare 1."), make_candidate(2, guideline=words, vector=as_sent(1, 0))
    assert order(*twins) == [1, 2]


def test_rank_returns_at_most_top_k() -> None:
    assert order(*(make_candidate(number) for number in range(1, 5)), top_k=2) == [1, 2]


@pytest.mark.parametrize("mode", FLOORS)
def test_rank_lists_a_lesson_below_the_floor_without_letting_it_fit(mode: str) -> None:
    floor = FLOORS[mode]
    good, weak, none = (
        make_candidate(number, similarity=own)
        for number, own in ((1, floor), (2, (1 + LISTED_SHARE) / 2 * floor), (3, 0.9 * LISTED_SHARE * floor))
    )
    assert [place.passed_over for place in rank([good, weak, none], top_k=5, mode=mode)] == ["", TOO_FOREIGN]


def test_rank_lets_no_family_lift_a_lesson_over_the_cut() -> None:
    best, other = make_candidate(1), make_candidate(2, score=0.99 * RELEVANT_SHARE, task_id="mine")
    assert [place.passed_over for place in rank([best, other], task_id="mine")] == ["", TOO_WEAK]


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"parts": Parts(0.2, 0.1, 0.3, 0.0)}, "It was learnt from, or has helped with, a task like this one."),
        ({"parts": Parts(0.25, 0.45, 0.0, 0.0)}, "It uses the words of the task."),
        ({"matched_task": "Much like it."}, "What it says is close in meaning to the task."),
        ({"rerank": 0.9}, "A cross-encoder compared it with the task."),
    ],
)
def test_rank_says_why(overrides: dict[str, Any], reason: str) -> None:
    (place,) = rank([make_candidate(**overrides)], top_k=1, mode="hybrid")
    assert place.reason == reason


def test_rank_gives_the_component_scores_there_are() -> None:
    (place,) = rank([make_candidate(parts=Parts(None, 0.25, 0.0, 0.0))], top_k=1, mode="hybrid")
    assert place.scores == {"score": 0.25, "words": 0.25}


def test_rank_names_the_factors_of_a_score() -> None:
    lesson = make_candidate(parts=Parts(0.2, 0.1, 0.05, 0.15), usefulness=1.0, task_id="mine")
    (place,) = rank([lesson], task_id="mine", top_k=1, mode="hybrid")
    assert place.scores == {
        "score": 0.605,
        "meaning": 0.2,
        "words": 0.1,
        "source_task": 0.05,
        "names": 0.15,
        "usefulness": 1.1,
        "family": 1.1,
    }


def test_drawn_lessons_keep_their_order() -> None:
    question = Question(project=Project(), task="Do it.", by=Actor(label="test"))
    drawn = rank_as_drawn([make_candidate(2), make_candidate(1)], ToolsOnOffer(question))
    assert [place.candidate.heuristic_id.int for place in drawn] == [2, 1]


def test_what_a_lesson_proved_to_be_worth_moves_it_by_a_tenth_at_most() -> None:
    useful = make_candidate(1, usefulness=1.0, support=1_000_000)
    assert order(useful, make_candidate(2, score=1.09)) == [1, 2]
    assert order(useful, make_candidate(2, score=1.11)) == [2, 1]
    useless = make_candidate(1, usefulness=0.0)
    assert order(useless, make_candidate(2, score=0.91)) == [2, 1]
    assert order(useless, make_candidate(2, score=0.89)) == [1, 2]


def test_one_source_fills_no_more_than_its_places_where_several_compete() -> None:
    loud = [make_candidate(number, client="loud", score=1 - number / 100) for number in range(1, 6)]
    quiet = make_candidate(9, client="quiet", score=0.1)
    assert order(*loud, quiet, limits=AnswerLimits(max_per_source=2), top_k=5) == [1, 2, 9]


def test_a_single_source_is_not_limited() -> None:
    loud = [make_candidate(number, client="loud", score=1 - number / 100) for number in range(1, 6)]
    assert order(*loud, limits=AnswerLimits(max_per_source=2), top_k=5) == [1, 2, 3, 4, 5]


def test_a_quota_limits_a_polarity_and_leaves_mixed_lessons_alone() -> None:
    lessons = [
        make_candidate(number, polarity=polarity, score=1 - number / 100)
        for number, polarity in enumerate(["works"] * 4 + ["avoid"] * 4 + ["mixed"] * 4)
    ]
    assert order(*lessons, limits=AnswerLimits(max_works_share=0.0), top_k=4) == [4, 5, 6, 7]
    assert order(*lessons, limits=AnswerLimits(max_works_share=0.25, max_avoid_share=0.5), top_k=4) == [0, 4, 5, 8]


PARTS = ("Cancel the flight of the passenger", "Book a room in a hotel nearby")
LISTED = f"1. {PARTS[0]}\n2. {PARTS[1]}"


def test_item_names_the_part_of_the_task_that_it_serves() -> None:
    flight = make_candidate(1, trigger="a passenger cancels a flight", score=1)
    hotel = make_candidate(9, trigger="a hotel room is booked", score=0.8)
    places = rank([flight, hotel], top_k=3, task=LISTED)
    assert [(place.candidate.heuristic_id.int, place.subtask) for place in places] == [(1, PARTS[0]), (9, PARTS[1])]


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("Cancel the flight", ()),
        (
            "Cancel the passenger's flight and then refund the hotel booking",
            ("Cancel the passenger's flight", "refund the hotel booking"),
        ),
        (
            "1. Find the order number\n2. Exchange the shoes for size 9",
            ("Find the order number", "Exchange the shoes for size 9"),
        ),
        (
            "Cancel flight HX12 to Rome. Refund the hotel booking!",
            ("Cancel flight HX12 to Rome.", "Refund the hotel booking!"),
        ),
    ],
)
def test_a_task_is_split_in_its_own_words(task: str, parts: tuple[str, ...]) -> None:
    assert split_task(task) == parts


def test_a_long_story_has_few_parts_that_hold_all_of_it() -> None:
    story = " ".join(f"Sentence {number} tells of luggage {number} and a delayed train." for number in range(200))
    parts = split_task(story)
    assert 2 <= len(parts) <= MAX_PARTS
    assert "luggage 0 " in parts[0]
    assert "luggage 199 " in parts[-1]
