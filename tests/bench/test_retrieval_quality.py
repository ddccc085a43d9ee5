"""The benchmark of retrieval at its smallest size: two folders of three documents."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.left_out import WEIGHTS, choose_weight, leave_out
from tests.bench.retrieval_quality import LoadedFolder, draw_plot, get_groups, write_row

TOPICS = {"fare": "Refund the fare of a flight", "room": "Book a room in a hotel", "seat": "Choose a seat on a train"}


def write_folder(folder: Path) -> Path:
    folder.mkdir()
    documents = [{"_id": topic, "title": topic, "text": text} for topic, text in TOPICS.items()]
    queries = [{"_id": f"q-{topic}", "text": f"Please: {text.lower()}"} for topic, text in TOPICS.items()]
    past = [{"id": topic, "request": f"Help me to {text.lower()}", "tool": topic} for topic, text in TOPICS.items()]
    for name, rows in (("corpus", documents), ("queries", queries), ("experience", past)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    truth = "".join(f"q-{topic}\t{topic}\t1\n" for topic in TOPICS)
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{truth}")
    return folder


@pytest.mark.django_db(transaction=True)
def test_benchmark_measures_all_searches_and_what_was_left_out(tmp_path: Path) -> None:
    folders = [LoadedFolder(write_folder(tmp_path / name), experience=True) for name in ("one", "other")]
    rows: list[dict[str, Any]] = []
    for folder in folders:
        folder.search_plainly()
        rows += folder.measure("hybrid")
    rows += [row for folder, weight in leave_out(folders) for row in folder.measure_left_out(weight)]
    draw_plot(rows, tmp_path / "plot.svg")

    assert [row["queries"] for row in rows] == ["q"] * 4
    assert {(row["bm25"], row["dense"], row["rrf"], row["nearest"], row["ndcg_at_10"]) for row in rows[:2]} == {
        (1,) * 5
    }
    assert [(row["left_out"], row["gain"], row["weight"] in WEIGHTS) for row in rows[2:]] == [(1, 0, True)] * 2
    assert "best dense" in write_row(rows[0] | {"best": "dense"})
    assert "one, q" in (tmp_path / "plot.svg").read_text()


def test_queries_are_grouped_by_their_kind() -> None:
    assert get_groups(["s-1", "m-1", "s-2"]) == {"s": [0, 2], "m": [1]}
    assert get_groups(["plain", "other-1"]) == {"all": [0, 1]}


@pytest.mark.django_db
def test_weight_is_the_one_that_is_best_on_the_other_folders(tmp_path: Path) -> None:
    folder = LoadedFolder(write_folder(tmp_path / "one"), experience=False)
    folder.by_weight = {weight: np.full(3, weight == 0.7) for weight in WEIGHTS}

    assert (choose_weight([folder]), choose_weight([])) == (0.7, 0.5)
