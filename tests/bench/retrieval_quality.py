"""How good retrieval is on questions and answers that nobody here wrote.

    uv run python -m tests.bench.retrieval_quality FOLDER… [--experience] [--foreign] [--modes hybrid lexical]
        [--plot docs/images/ndcg-by-mode.svg]

Each folder is in BEIR layout (corpus.jsonl, queries.jsonl, qrels.tsv). Its documents become approved lessons of a
scratch project in a database of its own, through the HTTP API alone (api_memory.py); its queries go through
`POST /api/v1/retrieve`; and nDCG@10 is taken over all of them, with 95% percentile bootstrap intervals over queries.
Nothing of the live data is read or written. With --experience the past requests of experience.jsonl are recorded as
trajectories and cited as evidence.
"""

import argparse
import json
import logging
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import permutations
from pathlib import Path
from typing import Any

import tests.servers

os.environ["DJANGO_SETTINGS_MODULE"] = "erl_site.settings"
import django  # isort: skip

django.setup()
logging.disable(logging.INFO)  # a line for every request

import numpy as np  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import setup_databases, setup_test_environment, teardown_databases  # noqa: E402
from tqdm import tqdm  # noqa: E402

from erl_site.embedded import postgres  # noqa: E402
from tests.administrator import become_administrator  # noqa: E402
from tests.bench.api_memory import ApiMemory, Lesson  # noqa: E402
from tests.bench.plots import Bar, draw_bars  # noqa: E402

CUTOFF = 10
NAMES = {
    ("metatool_retrieval", "s"): "MetaTool, one tool",
    ("metatool_retrieval", "m"): "MetaTool, two tools",
    ("tau_banking_retrieval", "all"): "tau banking, procedures",
    ("tau_retail_intents", "all"): "tau retail, past tasks",
}
BASELINES = {
    ("metatool_retrieval", "s", False): 0.716,
    ("metatool_retrieval", "m", False): 0.627,
    ("tau_banking_retrieval", "all", False): 0.317,
    ("tau_retail_intents", "all", False): 0.328,
    ("metatool_retrieval", "s", True): 0.864,
}
FOREIGN_TASKS = 200


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def read_truth(path: Path) -> dict[str, set[str]]:
    truth: dict[str, set[str]] = defaultdict(set)
    for line in path.read_text().splitlines()[1:]:
        query, document, score = line.split("\t")
        if int(score) > 0:
            truth[query].add(document)
    return truth


def read_lessons(folder: Path, *, experience: bool) -> list[Lesson]:
    """Return one lesson for each document, with the past requests that it served if they are wanted."""
    requests: dict[str, list[str]] = defaultdict(list)
    for past in read_lines(folder / "experience.jsonl") if experience else ():
        requests[past["tool"]].append(past["request"])
    documents = read_lines(folder / "corpus.jsonl")
    if unknown := requests.keys() - {document["_id"] for document in documents}:
        raise SystemExit(f"{folder / 'experience.jsonl'} names documents that are not there: {sorted(unknown)}")
    return [make_lesson(document, requests=requests[document["_id"]]) for document in documents]


def make_lesson(document: Mapping[str, Any], *, requests: Sequence[str] = ()) -> Lesson:
    """Return the lesson that a document becomes: its title says when, its text what to do."""
    title, text = document.get("title", ""), document["text"]
    guideline = text if title else "Do as in that task."
    return Lesson(id=document["_id"], trigger=title or text, guideline=guideline, requests=requests)


def get_ndcg(found: list[str], relevant: set[str]) -> float:
    """nDCG@10 with relevance 0 or 1 (Järvelin and Kekäläinen 2002)."""
    gain = sum(1 / math.log2(rank + 2) for rank, document in enumerate(found[:CUTOFF]) if document in relevant)
    return gain / sum(1 / math.log2(rank + 2) for rank in range(min(CUTOFF, len(relevant))))


def get_interval(values: np.ndarray, *, resamples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """95% percentile bootstrap of the mean."""
    generator = np.random.default_rng(seed)
    means = [values[generator.integers(0, len(values), len(values))].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def in_tuning_half(query_id: str) -> bool:
    """Queries on which the weights were chosen; the others were looked at afterwards."""
    return int(sha256(f"half{query_id}".encode()).hexdigest(), 16) % 2 == 0


def get_groups(query_ids: list[str]) -> dict[str, list[int]]:
    """Split a set by what stands before the first dash of its ids where that is one letter, and by half."""
    groups: dict[str, list[int]] = {}
    for index, query_id in enumerate(query_ids):
        kind = query_id.split("-")[0] if query_id[1:2] == "-" else "all"
        for name in (kind, f"{kind}, {'tuning' if in_tuning_half(query_id) else 'held-out'} half"):
            groups.setdefault(name, []).append(index)
    return groups


class LoadedFolder:
    """A folder whose documents are approved lessons of a project of their own, and a client that may ask it."""

    def __init__(self, folder: Path, *, experience: bool) -> None:
        self.folder = folder
        self.experience = experience
        self.scores: dict[str, np.ndarray] = {}  # of each query, by mode
        self.memory = ApiMemory(folder.name)
        self.ids = self.memory.load(read_lessons(folder, experience=experience))
        self.truth = read_truth(folder / "qrels.tsv")
        self.queries = [query for query in read_lines(folder / "queries.jsonl") if self.truth[query["_id"]]]
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def measure_quality(loaded: LoadedFolder, *, mode: str, limit: int | None) -> Iterator[dict[str, Any]]:
    """nDCG@10 of every group of queries of a folder, in one mode."""
    queries = loaded.queries[:limit]
    values, durations, empty = [], [], 0
    for query in tqdm(queries, desc=f"{loaded.folder.name} {mode}", leave=False):
        begun = time.perf_counter()
        answer = loaded.memory.ask(query["text"], mode=mode, top_k=CUTOFF)
        durations.append((time.perf_counter() - begun) * 1000)
        empty += not answer["context"]
        values.append(get_ndcg([loaded.ids[item["id"]] for item in answer["items"]], loaded.truth[query["_id"]]))
    scores = loaded.scores[mode] = np.array(values)
    for group, indexes in get_groups([query["_id"] for query in queries]).items():
        of_group = scores[indexes]
        low, high = get_interval(of_group)
        yield {
            "set": loaded.folder.name,
            "experience": loaded.experience,
            "mode": mode,
            "queries": group,
            "n": len(of_group),
            "ndcg_at_10": round(float(of_group.mean()), 4),
            "low": round(low, 4),
            "high": round(high, 4),
            "empty_blocks": round(empty / len(queries), 4),
            "p50_ms": round(float(np.median(durations)), 1),
        }


def compare_modes(loaded: LoadedFolder, *, limit: int | None) -> Iterator[dict[str, Any]]:
    """How far hybrid is from the better of its two ingredients, query by query, with an interval of the difference."""
    ingredients = [mode for mode in ("embedding", "lexical") if mode in loaded.scores]
    if "hybrid" not in loaded.scores or not ingredients:
        return
    for group, indexes in get_groups([query["_id"] for query in loaded.queries[:limit]]).items():
        best = max(ingredients, key=lambda mode: loaded.scores[mode][indexes].mean())
        difference = (loaded.scores["hybrid"] - loaded.scores[best])[indexes]
        low, high = get_interval(difference)
        yield {
            "set": loaded.folder.name,
            "queries": group,
            "hybrid_minus": best,
            "difference": round(float(difference.mean()), 4),
            "low": round(low, 4),
            "high": round(high, 4),
        }


def draw_plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw nDCG@10 of whole sets against mode; the line is the best published baseline with the same embedder."""
    bars = [
        Bar(
            group=NAMES.get((row["set"], row["queries"]), f"{row['set']}, {row['queries']}")
            + (", with past tasks" if row["experience"] else ""),
            series=row["mode"],
            value=row["ndcg_at_10"],
            low=row["low"],
            high=row["high"],
            baseline=BASELINES.get((row["set"], row["queries"], row["experience"])),
        )
        for row in rows
        if "ndcg_at_10" in row and "half" not in row["queries"]
    ]
    draw_bars(bars, title="nDCG@10 with 95% bootstrap intervals; dashed: best published baseline", path=path)


def measure_foreign(loaded: LoadedFolder, other: LoadedFolder) -> dict[str, Any]:
    """Share of another domain's tasks that are rightly given nothing."""
    queries = other.queries[:FOREIGN_TASKS]
    empty = sum(not loaded.memory.ask(query["text"], mode="hybrid", top_k=CUTOFF)["context"] for query in queries)
    return {
        "set": loaded.folder.name,
        "tasks_of": other.folder.name,
        "n": len(queries),
        "empty_blocks": round(empty / len(queries), 4),
    }


@contextmanager
def scratch_database() -> Iterator[None]:
    become_administrator()
    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        yield
    finally:
        teardown_databases(databases, verbosity=0)
        postgres.stop(tests.servers.HOME / "postgres", mode="immediate")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--from-json", nargs="+", type=Path, default=[], help="Draw figures of earlier runs as well.")
    parser.add_argument("--experience", action="store_true", help="Record experience.jsonl as source tasks.")
    parser.add_argument("--modes", nargs="+", default=["hybrid"])
    parser.add_argument("--foreign", action="store_true", help="Ask each project the tasks of the other folders too.")
    parser.add_argument("--limit", type=int, help="Only the first queries of each set.")
    parser.add_argument("--plot", type=Path, help="Draw nDCG@10 against mode into this SVG file.")
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = [row for path in options.from_json for row in json.loads(path.read_text())]
    if options.folders:
        measure(options, rows)
    if options.plot:
        draw_plot(rows, options.plot)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


def measure(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Measure everything that was asked for; print each figure as it comes and add it to the rows."""
    with scratch_database():
        folders = [LoadedFolder(folder, experience=options.experience) for folder in options.folders]
        for loaded in folders:
            for mode in options.modes:
                for row in measure_quality(loaded, mode=mode, limit=options.limit):
                    rows.append(row)
                    print(
                        f"{row['set']:24} {row['mode']:10} {row['queries']:22} n={row['n']:<5} "
                        f"nDCG@10 {row['ndcg_at_10']:.4f} ({row['low']:.4f}–{row['high']:.4f})  "
                        f"empty blocks {row['empty_blocks']:.3f}  p50 {row['p50_ms']} ms",
                        flush=True,
                    )
            for row in compare_modes(loaded, limit=options.limit):
                rows.append(row)
                print(
                    f"{row['set']:24} hybrid − {row['hybrid_minus']:10} {row['queries']:22} {row['difference']:+.4f} "
                    f"({row['low']:+.4f} to {row['high']:+.4f})"
                )
        for loaded, other in permutations(folders, 2) if options.foreign else ():
            row = measure_foreign(loaded, other)
            rows.append(row)
            print(
                f"{row['set']:24} asked {row['n']} tasks of {row['tasks_of']}: empty blocks {row['empty_blocks']:.3f}"
            )


if __name__ == "__main__":
    main()
