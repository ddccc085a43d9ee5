"""The benchmark of retrieval at its smallest size: two folders of three documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.retrieval_figures import ALL_WEIGHTS, IN_USE, Figures, Weights, choose_floor, choose_weights
from bench.retrieval_quality import get_groups, measure, read_options, report

pytestmark = pytest.mark.nightly


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
def test_benchmark_measures_all_searches_and_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(write_folder(tmp_path / name)) for name in ("one", "other")]
    plot = tmp_path / "plot.svg"
    options = read_options([*folders, "--experience", "--left-out", "--plot", str(plot)])

    sets = [Figures(**json.loads(json.dumps(one.as_json()))) for one in measure(options)]
    report(sets, options)

    assert [(one.groups, one.scores, one.by_weights) for one in sets] == [
        (
            {"q": [0, 1, 2]},
            dict.fromkeys(("bm25", "dense", "rrf", "nearest", "nearer", "hybrid"), [1.0] * 3),
            {str(weights): [1.0] * 3 for weights in ALL_WEIGHTS},
        )
    ] * 2
    assert (len(sets[0].fits), len(sets[0].foreign_fits["other"]), sets[0].asked["hybrid"]["empty_blocks"]) == (3, 3, 0)
    printed = capsys.readouterr().out
    assert "mean gain over 2 kinds of queries: +0.0000" in printed
    assert "mean names add over 2 kinds of queries: +0.0000" in printed
    assert "mean with the floor left out: own tasks answered 1.000" in printed
    assert "one, q" in plot.read_text()


def test_queries_are_grouped_by_their_kind() -> None:
    assert get_groups(["s-1", "m-1", "s-2"]) == {"s": [0, 2], "m": [1]}
    assert get_groups(["plain", "other-1"]) == {"all": [0, 1]}


def make_figures(**measured: Any) -> Figures:
    return Figures(set="one", experience=False, groups={"all": [0, 1]}, **measured)


def test_weight_is_the_one_that_is_best_on_the_other_folders() -> None:
    best = Weights(0.6, 0.1)
    figures = make_figures(by_weights={str(weights): [float(weights == best)] * 2 for weights in ALL_WEIGHTS})

    assert (choose_weights([figures]), choose_weights([])) == (best, IN_USE)


def test_what_names_add_is_the_difference_from_the_order_without_them() -> None:
    figures = make_figures(by_weights={str(IN_USE): [1.0, 0.5], str(IN_USE._replace(names=0.0)): [0.5, 0.5]})

    (row,) = figures.describe_names()

    assert (row["queries"], row["names_add"]) == ("all", 0.25)


def test_floor_is_the_highest_that_leaves_nearly_all_own_tasks_of_the_others_answered() -> None:
    assert choose_floor([make_figures(fits=[0.401, 0.8]), make_figures(fits=[0.9, 0.601])]) == 0.4
    assert choose_floor([]) == 0


def test_answers_are_counted_by_what_fits() -> None:
    figures = make_figures(fits=[0.3, 0.2], foreign_fits={"other": [0.1, 0.1], "third": [0.1, 0.5]})

    row = figures.describe_answers(0.25)

    assert (row["answered"], row["foreign_empty"]) == (0.5, 0.75)
