"""Whether two texts say the same: labelled pairs, with the errors counted, and what decides in which case."""

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from django.conf import settings

from memory.embeddings.base import embed_composites
from memory.embeddings.registry import get_embedder
from memory.meaning.comparison import Comparison, MeaningVerdict, compare_advice, compare_texts

DATA = Path(settings.BASE_DIR) / "tests" / "data" / "same_meaning"


def read_rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture(scope="module")
def judged() -> list[tuple[dict[str, str], Comparison]]:
    rows = read_rows("pairs.tsv")
    embedder = get_embedder()
    assert embedder is not None
    vectors = embed_composites(embedder, [(row[name],) for row in rows for name in ("one", "other")])
    similarities = np.einsum("ij,ij->i", vectors[::2], vectors[1::2])
    return [
        (row, compare_texts(row["one"], row["other"], similarity=float(similarity)))
        for row, similarity in zip(rows, similarities, strict=True)
    ]


def test_nothing_else_is_the_same_in_whatever_near_words(judged: list[tuple[dict[str, str], Comparison]]) -> None:
    others = [(row, said) for row, said in judged if row["kind"] != "same"]

    assert len(others) >= 300
    assert [row for row, said in others if said.verdict is MeaningVerdict.SAME] == []


@pytest.mark.parametrize(("name", "joined"), [("tuned", 46), ("held-out", 52)])
def test_paraphrases_that_are_found(judged: list[tuple[dict[str, str], Comparison]], name: str, joined: int) -> None:
    same = [said.verdict for row, said in judged if (row["kind"], row["set"]) == ("same", name)]

    assert (len(same), same.count(MeaningVerdict.SAME)) == (58, joined)


def test_paraphrases_that_are_called_opposites(judged: list[tuple[dict[str, str], Comparison]]) -> None:
    assert sum(said.is_opposite for row, said in judged if row["kind"] == "same") == 5


def test_pairs_of_which_only_one_can_hold_are_called_so(judged: list[tuple[dict[str, str], Comparison]]) -> None:
    kinds = ("opposite", "order", "comparison", "number", "quantifier")
    against = [said for row, said in judged if row["kind"] in kinds]

    assert (len(against), sum(said.is_opposite for said in against)) == (148, 134)


def test_comparing_in_the_other_direction_gives_the_same(judged: list[tuple[dict[str, str], Comparison]]) -> None:
    turned = [compare_texts(row["other"], row["one"], similarity=0.9).verdict for row, _ in judged]

    assert turned == [compare_texts(row["one"], row["other"], similarity=0.9).verdict for row, _ in judged]


def test_similarity_alone_never_joins() -> None:
    one, other = "Retry the payment call.", "I will not retry the payment call."

    assert compare_texts(one, other, similarity=1.0) == Comparison(
        MeaningVerdict.DIFFERENT, "one says what the other denies of “call”", is_opposite=True, is_sure=True
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Keep rows where `a > 1`", "Keep rows where `a >= 1`"),
        ("Use -1.", "Use 1."),
        ("Write it in C.", "Write it in C++."),
        ("Wait 5 s.", "Wait 5 min."),
        ("Удаляйте файл.", "Не удаляйте файл."),
        ("退款给用户", "不要退款给用户"),
    ],
)
def test_signs_and_words_of_other_languages_are_compared(one: str, other: str) -> None:
    assert compare_texts(one, other, similarity=0.999).verdict is not MeaningVerdict.SAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Call `get_user`.", "call get_user"),
        ("Wait 24 hours.", "Wait 1 day!"),
        ("Удаляйте файл.", "удаляйте  файл"),
        ("Ｗａｉｔ for it", "wait for it"),
    ],
)
def test_spelling_is_not_compared(one: str, other: str) -> None:
    assert compare_texts(one, other).verdict is MeaningVerdict.SAME


@pytest.mark.parametrize(
    ("condition", "advice", "verdict"),
    [
        ('When `pay` answers "declined"', "Offer another card.", MeaningVerdict.SAME),
        ("When the task is of the kind shop", "Offer another card.", MeaningVerdict.SAME),
        ("", 'When `pay` answers "declined", offer another card.', MeaningVerdict.SAME),
        ('When `refund` answers "declined"', "Offer another card.", MeaningVerdict.DIFFERENT),
        ("When the customer is tired", "Offer another card.", MeaningVerdict.DOUBTFUL),
        ('When `pay` answers "declined"', "Never offer another card.", MeaningVerdict.DIFFERENT),
    ],
)
def test_condition_and_advice_are_compared_in_any_mixture(condition: str, advice: str, verdict: MeaningVerdict) -> None:
    said = compare_advice('When `pay` answers "declined"', "Offer another card.", condition, advice)

    assert said.verdict is verdict


OTHER_AIRPORT = (
    "When a user who is modifying a reservation says a different, nearby departure airport would be fine too."
)
KEEP_AIRPORTS = (
    "Compare the airport with origin and destination. If it differs, use respond to say that a change keeps both, "
    "and go on with the booked pair only. Get a yes, then call update_reservation_flights."
)


@pytest.mark.parametrize(
    ("condition", "advice", "is_sure"),
    [
        # One says "different", the other "same", of other things
        (
            "When a user asks to change a reservation to flights from another airport, also one in the same city.",
            "Read origin and destination. Say with respond that both must be kept. Offer flights for the booked pair.",
            False,
        ),
        (OTHER_AIRPORT.replace("a different", "the same"), KEEP_AIRPORTS, True),
        (OTHER_AIRPORT.replace("departure", "arrival"), KEEP_AIRPORTS, True),
        (OTHER_AIRPORT, KEEP_AIRPORTS.replace("a yes", "a no"), True),
        (OTHER_AIRPORT, KEEP_AIRPORTS.replace("If it differs, use", "If it differs, never use"), True),
    ],
)
def test_words_of_long_texts_are_opposites_if_they_are_about_the_same(
    condition: str, advice: str, is_sure: bool
) -> None:
    assert compare_advice(OTHER_AIRPORT, KEEP_AIRPORTS, condition, advice, similarity=0.85).is_sure is is_sure


def test_wordings_of_three_facts_are_found_and_none_of_another() -> None:
    rows = read_rows("wordings.tsv")
    pairs = [
        (one["fact"] == other["fact"], compare_texts(one["note"], other["note"]).verdict)
        for one, other in combinations(rows, 2)
    ]

    assert (False, MeaningVerdict.SAME) not in pairs
    assert pairs.count((True, MeaningVerdict.SAME)) >= 400


@pytest.mark.parametrize(
    "filling", ["a" * 2000, "not " * 500, "`" * 2000, '"' * 2000, "-" * 2000, "1," * 1000, "a/" * 1000]
)
def test_long_text_of_one_kind_is_read(filling: str) -> None:
    assert compare_texts(filling, filling + " x").verdict in set(MeaningVerdict)
