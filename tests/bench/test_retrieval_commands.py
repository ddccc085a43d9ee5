"""The other commands that measure retrieval, each at its smallest size."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import retrieval_by_model, retrieval_faults, retrieval_names
from bench.api_memory import ApiMemory, Lesson
from bench.baseline_table import print_table
from tests.bench.test_retrieval_quality import TOPICS, write_folder
from tests.scripted_answers import silence
from tests.scripted_provider import ScriptedProvider

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True)]


def write_lines(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))


def test_answer_that_lacks_something_ends_a_benchmark(settings: Any) -> None:
    memory = ApiMemory("No embedder")
    memory.load([Lesson(id="fare", trigger="fare", guideline=TOPICS["fare"])])

    settings.ERL_EMBEDDER = "none"

    with pytest.raises(SystemExit, match="lacked something"):
        memory.ask(TOPICS["fare"])


def test_request_that_is_refused_ends_a_benchmark() -> None:
    with pytest.raises(SystemExit, match=r"POST /retrieve answered 400.*unknown"):
        ApiMemory("Refused").ask(TOPICS["fare"], unknown=True)


def test_baseline_table_tells_words_from_meaning(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "one")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q-room", "text": "Where can I sleep tonight?"}))

    rows = print_table([folder])

    assert [(row["method"], row["ndcg_at_10"], row["n"]) for row in rows] == [
        ("bm25", 0, 1),
        ("dense", 1, 1),
        ("rrf", 1, 1),
    ]


def test_names_are_measured_with_and_without_their_worth(tmp_path: Path) -> None:
    # A misspelt name shares no word with its lesson, and another lesson shares all the other words of the task.
    tools = [{"_id": name, "text": "How to tell the time."} for name in ("qzxwvkjhmg1", "rtplmnsdfk2", "bdfghjcvwz3")]
    tools.append({"_id": "scales", "text": "The last run stopped. Now weigh my parcel."})
    write_lines(tmp_path / "metatool_retrieval" / "corpus.jsonl", *tools)
    write_lines(tmp_path / "metatool_retrieval" / "queries.jsonl", {"text": "Please weigh my parcel"})
    write_lines(tmp_path / "tau_banking_retrieval" / "corpus.jsonl", {"_id": "fee", "text": "Waive the fee once."})
    asked = [str(tmp_path), "--modes", "lexical", "--worth", "0", "0.3", "--limit", "4"]

    rows = retrieval_names.measure_all(retrieval_names.read_options(asked))

    without, with_names = (row for row in rows if row["tasks"] == "all")
    assert (without["worth"], with_names["worth"]) == (0.0, 0.3)
    assert without["ndcg_at_10"] < with_names["ndcg_at_10"]
    assert with_names["n"] == 3 * 5  # camelCase is the name itself


def test_model_that_is_silent_is_told_from_one_that_ranks(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "one")
    with ScriptedProvider(otherwise=silence()) as provider:
        asked = [str(folder), "--url", provider.openai_url, "--queries", "1", "--lessons", "3", "--deadline", "0.2"]
        rows = retrieval_by_model.compare(retrieval_by_model.read_options(asked))

    assert [(row["mode"], row["answered_by_mode"]) for row in rows] == [("erl", 0), ("hybrid", 1), ("random", 1)]


def test_faults_are_answered_and_named() -> None:
    options = retrieval_faults.read_options(
        ["--lessons", "2", "--rate", "20", "--seconds", "0.3", "--only", "nothing", "embedder"]
    )

    rows = retrieval_faults.measure(options)

    assert [(row["errors"], [*row["said"]]) for row in rows] == [(0, ["-"]), (0, ["embedder"])]
