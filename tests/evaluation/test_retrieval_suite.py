"""Folders in BEIR layout: read, searched, and refused when they would tell the answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.errors import EvaluationError, LabelIndexed
from evaluation.reports.report import present
from evaluation.suites.base import Options
from evaluation.suites.retrieval import RetrievalSuite, read_folder, refuse_indexed_label

DOCUMENTS = [
    {"_id": "rain", "title": "Weather", "text": "Forecasts of rain and sun for any place."},
    {"_id": "chess", "title": "Chess", "text": "Plays a game of chess and explains openings."},
    {"_id": "route", "title": "Maps", "text": "Finds the shortest way from one place to another."},
]
QUERIES = [{"_id": "q1", "text": "Will it rain on Sunday?"}, {"_id": "q2", "text": "Teach me a chess opening."}]


def write_folder(folder: Path, *, documents: list[dict[str, Any]] = DOCUMENTS) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in (("corpus", documents), ("queries", QUERIES)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\train\t1\nq2\tchess\t1\n")
    return folder


@pytest.mark.django_db(transaction=True)
def test_a_folder_of_ones_own_is_searched_through_the_product(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    options = Options(suites=("retrieval",), data=str(folder), arms=("random:20", "hybrid:20"))
    suite = RetrievalSuite()
    [unit] = suite.units(options)

    result = suite.run_unit(unit, options, lambda what, done, total: None)

    told = suite.summarise({unit: result}, options)
    figures = {row["name"]: row["mean"] for row in told["figures"] if row["arm"] == "tiny/hybrid:20"}
    assert figures["recall@1"] == figures["MRR"] == 1
    assert figures["precision@5"] == pytest.approx(0.2)
    [tiny] = [table for table in present({"suites": [told]})[0]["figure_tables"] if table["bars"]]
    assert tiny["main"] == "nDCG@10"
    assert [(bar["label"], bar["text"]) for bar in tiny["bars"]["bars"]][1] == ("hybrid:20", "1.000")


def test_label_in_the_searched_text_is_refused(tmp_path: Path) -> None:
    told = [
        *DOCUMENTS,
        {"_id": "x", "title": "Refund", "text": "Calls refund_order at the end.", "tool": "refund_order"},
    ]

    with pytest.raises(LabelIndexed, match="'tool'"):
        refuse_indexed_label(read_folder(write_folder(tmp_path, documents=told)), name="told")


def test_query_among_the_documents_is_refused(tmp_path: Path) -> None:
    told = [*DOCUMENTS, {"_id": "x", "title": "", "text": "Will it rain on Sunday?"}]

    with pytest.raises(LabelIndexed, match="word for word"):
        refuse_indexed_label(read_folder(write_folder(tmp_path, documents=told)), name="told")


def test_folder_without_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no folder with"):
        RetrievalSuite().units(Options(data=str(tmp_path)))


def test_bundled_sets_can_be_asked_as_they_are() -> None:
    folders = {Path(unit).name: read_folder(Path(unit)) for unit in RetrievalSuite().units(Options())}

    sizes = {name: (len(folder.queries), len(folder.corpus)) for name, folder in folders.items()}
    assert sizes == {"metatool": (1467, 199), "tau_banking": (49, 698), "tau_retail": (45, 500)}
    for name, folder in folders.items():
        refuse_indexed_label(folder, name=name)
        assert all(relevant.keys() <= folder.corpus.keys() for relevant in folder.relevant.values())
