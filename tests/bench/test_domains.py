"""The retrieval sets that bench.domains.build wrote, and the plain searches they are measured with."""

from pathlib import Path

import numpy as np
import pytest

import bench.domains
from bench.baselines import fuse, rank, rank_by_past_requests, score_words
from bench.domains import ruff
from bench.domains.build import MAX_QUESTIONS, READERS, draw
from bench.domains.pairs import Page, Pairs, Question
from bench.retrieval_quality import read_lines, read_truth

pytestmark = pytest.mark.nightly


DOMAINS = Path(bench.domains.__file__).parent


@pytest.mark.parametrize("name", sorted(READERS))
def test_set_is_whole_and_small(name: str) -> None:
    folder = DOMAINS / name
    pages = [page["_id"] for page in read_lines(folder / "corpus.jsonl")]
    questions = [question["_id"] for question in read_lines(folder / "queries.jsonl")]
    truth = read_truth(folder / "qrels.tsv")

    assert len(set(pages)) == len(pages) <= 1000
    assert 300 <= len(set(questions)) == len(questions) <= 600
    assert set(questions) == set(truth)
    assert set(pages) >= set().union(*truth.values())
    assert sum(path.stat().st_size for path in folder.iterdir()) < 400_000


def test_draw_keeps_answers_and_ignores_the_order() -> None:
    pages = [Page(key=f"p{number}", title="", text="text " * 20) for number in range(3000)]
    questions = [Question(key=f"q{number}", text="?", answers=[f"p{number}"]) for number in range(2000)]

    drawn = draw(Pairs(pages=pages, questions=questions))

    assert drawn == draw(Pairs(pages=pages[::-1], questions=questions[::-1]))
    assert len(drawn.questions) == MAX_QUESTIONS
    assert {answer for question in drawn.questions for answer in question.answers} < {page.key for page in drawn.pages}


def test_sections_of_a_rule() -> None:
    assert ruff.split_sections("## What it does\nChecks.\n\n## Example\ncode\n") == {
        "What it does": "\nChecks.\n\n",
        "Example": "\ncode\n",
    }


@pytest.mark.django_db
def test_words_score_as_in_the_formula() -> None:
    scores = score_words([("", "Renting cars"), ("", "rented flat near rent office")], ["cars rent", "the"])

    # By hand with k1 1.2 and b 0.75: stems rent car, and rent flat near rent offic; lengths 2 and 5, mean 3.5
    assert scores[0] == pytest.approx([1.0616, 0.2237], abs=1e-4)
    assert scores[1] == pytest.approx([0, 0])


def test_ranking_leaves_out_what_scores_nothing() -> None:
    assert rank(np.array([0.0, 2.0, 3.0, -1.0])) == [2, 1]


def test_fusion_prefers_what_both_lists_have() -> None:
    assert fuse([[0, 1], [2, 1]]) == [1, 0, 2]


def test_nearer_goes_by_the_document_or_a_past_request() -> None:
    documents = [("", "Cancels flights."), ("", "Paints walls.")]
    rankings = rank_by_past_requests(documents, [[], ["Reserve a table for two"]], ["cancel my flight", "book a table"])

    assert ([first for first, *_ in rankings["nearest"]], [first for first, *_ in rankings["nearer"]]) == (
        [1, 1],
        [0, 1],
    )
