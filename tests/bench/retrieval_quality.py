"""How good retrieval is on questions and answers that nobody here wrote.

    uv run python -m tests.bench.retrieval_quality FOLDER… [--experience] [--foreign] [--modes hybrid lexical]
        [--plot docs/images/ndcg-by-set.svg]

Each folder is in BEIR layout (corpus.jsonl, queries.jsonl, qrels.tsv). Its documents become approved lessons of a
scratch project in a database of its own, through the HTTP API alone (api_memory.py); its queries go through
`POST /api/v1/retrieve`; and nDCG@10 is taken over all of them, with 95% percentile bootstrap intervals over queries.
Nothing of the live data is read or written. With --experience the past requests of experience.jsonl are recorded as
trajectories and cited as evidence.

Beside each set stand the plain searches (baselines.py), how far ERL is from the best of them, query by query, and what
ERL reaches with the weight of meaning that is best on all *other* folders (left_out.py).
"""

import argparse
import json
import logging
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import tests.servers

os.environ["DJANGO_SETTINGS_MODULE"] = "erl_site.settings"
import django  # isort: skip

django.setup()

import numpy as np  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import setup_databases, setup_test_environment, teardown_databases  # noqa: E402
from tqdm import tqdm  # noqa: E402

from erl_site.embedded import postgres  # noqa: E402
from memory.retrieval import task_vector  # noqa: E402
from tests.administrator import become_administrator  # noqa: E402
from tests.bench.api_memory import ApiMemory, Lesson  # noqa: E402
from tests.bench.baselines import rank_baselines, rank_by_past_requests  # noqa: E402
from tests.bench.left_out import leave_out  # noqa: E402
from tests.bench.plots import Bar, draw_bars  # noqa: E402

CUTOFF = 10
CORPUS = "corpus.jsonl"
FOREIGN_TASKS = 200
WAIT_SECONDS = 60


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


def get_groups(query_ids: list[str]) -> dict[str, list[int]]:
    """Split a set by what stands before the first dash of its ids where that is one letter."""
    groups: dict[str, list[int]] = {}
    for index, query_id in enumerate(query_ids):
        groups.setdefault(query_id.split("-")[0] if query_id[1:2] == "-" else "all", []).append(index)
    return groups


class LoadedFolder:
    """A folder whose documents are approved lessons of a project of their own, and a client that may ask it.

    `scores` are the nDCG@10 of each query, by mode and by plain search; `by_weight` those of hybrid by the weight of
    meaning.
    """

    def __init__(self, folder: Path, *, experience: bool, limit: int | None = None) -> None:
        self.folder = folder
        self.experience = experience
        self.scores: dict[str, np.ndarray] = {}
        self.by_weight: dict[float, np.ndarray] = {}
        self.memory = ApiMemory(folder.name)
        self.lessons = read_lessons(folder, experience=experience)
        self.ids = self.memory.load(self.lessons)
        self.truth = read_truth(folder / "qrels.tsv")
        queries = [query for query in read_lines(folder / "queries.jsonl") if self.truth[query["_id"]]]
        self.queries = queries[:limit]
        self.groups = get_groups([query["_id"] for query in self.queries])
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")

    def judge(self, rankings: Iterable[Sequence[str]]) -> np.ndarray:
        """Return nDCG@10 of the documents found for each query."""
        pairs = zip(rankings, self.queries, strict=True)
        return np.array([get_ndcg([*found], self.truth[query["_id"]]) for found, query in pairs])

    def ask_all(self, mode: str) -> dict[str, float]:
        """Send every query to the API; return the share of empty blocks and the median time."""
        durations, rankings, empty = [], [], 0
        for query in tqdm(self.queries, desc=f"{self.folder.name} {mode}", leave=False):
            begun = time.perf_counter()
            answer = self.memory.ask(query["text"], mode=mode, top_k=CUTOFF)
            durations.append((time.perf_counter() - begun) * 1000)
            empty += not answer["context"]
            rankings.append([self.ids[item["id"]] for item in answer["items"]])
        self.scores[mode] = self.judge(rankings)
        return {
            "empty_blocks": round(empty / len(self.queries), 4),
            "p50_ms": round(float(np.median(durations)), 1),
        }

    def search_plainly(self) -> None:
        """Score the plain searches."""
        ids = [lesson.id for lesson in self.lessons]
        documents = [(document.get("title", ""), document["text"]) for document in read_lines(self.folder / CORPUS)]
        texts = [query["text"] for query in self.queries]
        rankings = rank_baselines(documents, texts)
        if self.experience:
            rankings["nearest"] = rank_by_past_requests([lesson.requests for lesson in self.lessons], texts)
        for name, found in rankings.items():
            self.scores[name] = self.judge([ids[place] for place in places] for places in found)

    def measure(self, mode: str) -> Iterator[dict[str, Any]]:
        """Yield nDCG@10 of every kind of query in a mode, and its distance from the best plain search."""
        asked = self.ask_all(mode)
        plain = [name for name in ("bm25", "dense", "rrf", "nearest") if name in self.scores]
        for group, members in self.groups.items():
            best = max(plain, key=lambda name: self.scores[name][members].mean())
            yield {
                "set": self.folder.name,
                "experience": self.experience,
                "queries": group,
                "n": len(members),
                "mode": mode,
                **describe("ndcg_at_10", self.scores[mode][members]),
                **{name: round(float(self.scores[name][members].mean()), 4) for name in plain},
                "best": best,
                **describe("difference", (self.scores[mode] - self.scores[best])[members]),
                **asked,
            }

    def measure_left_out(self, weight: float) -> Iterator[dict[str, Any]]:
        """Yield nDCG@10 with a weight of meaning that was chosen without this folder, and its distance likewise."""
        plain = [name for name in ("bm25", "dense", "rrf", "nearest") if name in self.scores]
        for group, members in self.groups.items():
            best = max(plain, key=lambda name: self.scores[name][members].mean())
            yield {
                "set": self.folder.name,
                "queries": group,
                "weight": weight,
                **describe("left_out", self.by_weight[weight][members]),
                **describe("gain", (self.by_weight[weight] - self.scores[best])[members]),
            }


def describe(name: str, values: np.ndarray) -> dict[str, float]:
    """Return the mean of some queries' values by its name, and its interval."""
    low, high = get_interval(values)
    return {
        name: round(float(values.mean()), 4),
        f"{name}_low": round(low, 4),
        f"{name}_high": round(high, 4),
    }


def draw_plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw nDCG@10 of each set: what was left out of the tuning, and the best plain search as a line."""
    measured = {(row["set"], row["queries"]): row for row in rows if row.get("mode") == "hybrid"}
    bars = [
        Bar(
            group=row["set"].removesuffix("_retrieval") + ("" if row["queries"] == "all" else f", {row['queries']}"),
            series="hybrid, left out",
            value=row["left_out"],
            low=row["left_out_low"],
            high=row["left_out_high"],
            baseline=measured[row["set"], row["queries"]][measured[row["set"], row["queries"]]["best"]],
        )
        for row in rows
        if "left_out" in row
    ]
    draw_bars(bars, title="nDCG@10 with 95% bootstrap intervals; dashed: best plain search", path=path)


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


def wait_longer() -> None:
    """Give every part of an answer a minute: on a slow machine an answer is late, and still whole."""
    options = connection.settings_dict["OPTIONS"]
    limits = f"{options['options']} -c lock_timeout={WAIT_SECONDS}s"  # of two, the last counts
    connection.settings_dict["OPTIONS"] = options | {"connect_timeout": WAIT_SECONDS, "options": limits}
    task_vector.DEADLINE_SECONDS = WAIT_SECONDS


@contextmanager
def scratch_database(*, patient: bool = True) -> Iterator[None]:
    """Make a database for a benchmark on a server of its own, and discard it.

    Args:
        patient: wait a minute where the product does not, so that no answer lacks anything.
    """
    become_administrator()
    if patient:
        wait_longer()
    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        yield
    finally:
        teardown_databases(databases, verbosity=0)
        postgres.stop(tests.servers.HOME / "postgres", mode="immediate")


def main() -> None:
    logging.disable(logging.INFO)  # a line for every request
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--from-json", nargs="+", type=Path, default=[], help="Draw figures of earlier runs as well.")
    parser.add_argument("--experience", action="store_true", help="Record experience.jsonl as source tasks.")
    parser.add_argument("--modes", nargs="+", default=["hybrid"])
    parser.add_argument("--foreign", action="store_true", help="Ask each project the tasks of the other folders too.")
    parser.add_argument("--left-out", action="store_true", help="Choose the weight of meaning on the other folders.")
    parser.add_argument("--limit", type=int, help="Only the first queries of each set.")
    parser.add_argument("--plot", type=Path, help="Draw nDCG@10 of each set into this SVG file.")
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
        folders = []
        for folder in options.folders:
            loaded = LoadedFolder(folder, experience=options.experience, limit=options.limit)
            loaded.search_plainly()
            for mode in options.modes:
                for row in loaded.measure(mode):
                    rows.append(row)
                    print(write_row(row), flush=True)
            folders.append(loaded)
        for loaded, weight in leave_out(folders) if options.left_out or options.plot else ():
            for row in loaded.measure_left_out(weight):
                rows.append(row)
                print(
                    f"{row['set']:24} {row['queries']:4} left out: {row['left_out']:.3f} ({row['left_out_low']:.3f}–"
                    f"{row['left_out_high']:.3f}), gain {row['gain']:+.3f} ({row['gain_low']:+.3f} to "
                    f"{row['gain_high']:+.3f}) at weight {weight}",
                    flush=True,
                )
        for name in ("difference", "gain"):
            if gains := [row[name] for row in rows if name in row and row.get("mode", "hybrid") == "hybrid"]:
                print(f"mean {name} over {len(gains)} sets: {np.mean(gains):+.4f}")
        for loaded, other in permutations(folders, 2) if options.foreign else ():
            row = measure_foreign(loaded, other)
            rows.append(row)
            print(
                f"{row['set']:24} asked {row['n']} tasks of {row['tasks_of']}: empty blocks {row['empty_blocks']:.3f}"
            )


def write_row(row: dict[str, Any]) -> str:
    plain = " ".join(f"{name} {row[name]:.3f}" for name in ("bm25", "dense", "rrf", "nearest") if name in row)
    return (
        f"{row['set']:24} {row['queries']:4} n={row['n']:<5} {row['mode']:10} {row['ndcg_at_10']:.3f} "
        f"({row['ndcg_at_10_low']:.3f}–{row['ndcg_at_10_high']:.3f})  {plain}  best {row['best']} "
        f"{row['difference']:+.3f} ({row['difference_low']:+.3f} to {row['difference_high']:+.3f})  "
        f"empty blocks {row['empty_blocks']:.3f}  p50 {row['p50_ms']} ms"
    )


if __name__ == "__main__":
    main()
