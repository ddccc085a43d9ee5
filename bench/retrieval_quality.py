"""How good retrieval is on questions and answers from outside the project.

    uv run python -m bench.retrieval_quality FOLDER… [--left-out] [--experience] [--modes hybrid lexical]
        [--only WORD…] [--held-out-half] [--json FILE] [--from-json FILE…] [--plot docs/images/ndcg-by-set.svg]

Each folder is in BEIR layout (corpus.jsonl, queries.jsonl, qrels.tsv). Its documents become approved lessons of a
scratch project in a database of its own, through the HTTP API alone (api_memory.py); its queries go through
`POST /api/v1/retrieve`; and nDCG@10 is taken over all of them, with 95% percentile bootstrap intervals over queries.
Nothing of the live data is read or written. With --experience the past requests of experience.jsonl are recorded as
trajectories and cited as evidence.

Beside each set stand the plain searches (baselines.py) and how far ERL is from the best of them, query by query. With
--left-out follow what ERL reaches with the weights of meaning and names that are best on all *other* sets, what names
add, and how many tasks, own and foreign, are given something, with the floor in use and with the one chosen on all
other sets. For these, the product's search is asked in this process.

A long run can be done in parts, at the same time or one after the other: --only measures some of the folders into a
file, and --from-json prints the figures of all files.
"""

import argparse
import hashlib
import json
import logging
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import tests.servers

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django  # isort: skip

django.setup()

import numpy as np  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import (  # noqa: E402
    override_settings,
    setup_databases,
    setup_test_environment,
    teardown_databases,
)
from tqdm import tqdm  # noqa: E402

from bench.api_memory import ApiMemory, Lesson  # noqa: E402
from bench.baselines import rank_baselines, rank_by_past_requests  # noqa: E402
from bench.plots import draw_bars  # noqa: E402
from bench.retrieval_figures import (  # noqa: E402
    ALL_WEIGHTS,
    FORMER_RULE,
    MEANING_WEIGHTS,
    NAMES_WEIGHTS,
    Figures,
    Weights,
    describe_all,
    make_bars,
    make_block_bars,
    write_means,
    write_row,
)
from erl_site.embedded import postgres  # noqa: E402
from memory.retrieval import task_vector  # noqa: E402
from memory.retrieval.candidates import Candidate, find_candidates  # noqa: E402
from memory.retrieval.context import count_tokens, write_line  # noqa: E402
from memory.retrieval.database_search import Search  # noqa: E402
from memory.retrieval.project_state import read_state  # noqa: E402
from memory.retrieval.scoring import MEANING_WEIGHT, NAMES_WEIGHT  # noqa: E402
from memory.retrieval.snapshot import snapshots  # noqa: E402
from memory.retrieval.task_vector import embed_task  # noqa: E402
from tests.administrator import become_administrator  # noqa: E402

CUTOFF = 10
CORPUS = "corpus.jsonl"
FOREIGN_TASKS = 80  # of each other folder
MEMORY_MB = 256
WAIT_SECONDS = 60


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def read_truth(path: Path) -> dict[str, set[str]]:
    truth: dict[str, set[str]] = defaultdict(set)
    # BEIR's files begin with a line of headings.
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
    # A document without a title is a past task: it says when, and the advice is to do the same.
    guideline = text if title else "Do as in that task."
    return Lesson(id=document["_id"], trigger=title or text, guideline=guideline, requests=requests)


def get_ndcg(found: list[str], relevant: set[str]) -> float:
    """nDCG@10 with relevance 0 or 1 (Järvelin and Kekäläinen 2002)."""
    gain = sum(1 / math.log2(rank + 2) for rank, document in enumerate(found[:CUTOFF]) if document in relevant)
    return gain / sum(1 / math.log2(rank + 2) for rank in range(min(CUTOFF, len(relevant))))


def get_groups(query_ids: list[str]) -> dict[str, list[int]]:
    """Split a set by what stands before the first dash of its ids where that is one letter."""
    groups: dict[str, list[int]] = {}
    for index, query_id in enumerate(query_ids):
        groups.setdefault(query_id.split("-")[0] if query_id[1:2] == "-" else "all", []).append(index)
    return groups


class LoadedFolder:
    """A folder whose documents are approved lessons of a project of their own, and a client that may ask it."""

    def __init__(
        self, folder: Path, *, experience: bool, limit: int | None = None, held_out_half: bool = False
    ) -> None:
        self.folder = folder
        self.memory = ApiMemory(folder.name)
        self.lessons = read_lessons(folder, experience=experience)
        self.ids = self.memory.load(self.lessons)
        self.truth = read_truth(folder / "qrels.tsv")
        self.queries = [query for query in read_queries(folder) if not (held_out_half and was_tuned_on(query))][:limit]
        groups = get_groups([query["_id"] for query in self.queries])
        self.figures = Figures(set=folder.name, experience=experience, groups=groups)
        with connection.cursor() as cursor:
            # Autovacuum would come too late for a project that was filled a moment ago.
            cursor.execute("ANALYZE")

    def judge(self, rankings: Iterable[Sequence[str]]) -> list[float]:
        """Return nDCG@10 of the documents found for each query."""
        pairs = zip(rankings, self.queries, strict=True)
        return [get_ndcg([*ranking], self.truth[query["_id"]]) for ranking, query in pairs]

    def ask_all(self, mode: str) -> None:
        """Send every query to the API."""
        durations, rankings, empty = [], [], 0
        for query in tqdm(self.queries, desc=f"{self.folder.name} {mode}", leave=False):
            begun = time.perf_counter()
            answer = self.memory.ask(query["text"], mode=mode, top_k=CUTOFF)
            durations.append((time.perf_counter() - begun) * 1000)
            empty += not answer["context"]
            rankings.append([self.ids[id] for id in self.memory.rank(answer)])
        self.figures.scores[mode] = self.judge(rankings)
        self.figures.asked[mode] = {
            "empty_blocks": round(empty / len(self.queries), 4),
            "p50_ms": round(float(np.median(durations)), 1),
        }

    def search_plainly(self) -> None:
        """Score the plain searches."""
        ids = [lesson.id for lesson in self.lessons]
        documents = [(document.get("title", ""), document["text"]) for document in read_lines(self.folder / CORPUS)]
        texts = [query["text"] for query in self.queries]
        rankings = rank_baselines(documents, texts)
        if self.figures.experience:
            rankings |= rank_by_past_requests(documents, [lesson.requests for lesson in self.lessons], texts)
        for name, ranking in rankings.items():
            self.figures.scores[name] = self.judge([ids[index] for index in places] for places in ranking)

    def search_with_all_weights(self) -> None:
        """Score hybrid by the weights of meaning and names, and note how well the best lesson fits each task."""
        rankings: dict[Weights, list[list[str]]] = {weights: [] for weights in ALL_WEIGHTS}
        for query in tqdm(self.queries, desc=f"{self.folder.name} by weight", leave=False):
            for meaning in MEANING_WEIGHTS:
                ranking = self._search(query["text"], meaning)
                if meaning == MEANING_WEIGHT:
                    self.figures.fits.append(max((candidate.similarity for candidate in ranking), default=0.0))
                for names in NAMES_WEIGHTS:
                    order = sorted(
                        ranking,
                        key=lambda candidate: candidate.parts.names * (1 - names / NAMES_WEIGHT) - candidate.score,
                    )
                    rankings[Weights(meaning, names)].append(
                        [self.ids[str(candidate.heuristic_id)] for candidate in order]
                    )
        self.figures.by_weights = {str(weights): self.judge(ranking) for weights, ranking in rankings.items()}

    def search_blocks(self) -> None:
        """Record what decides whether the first lessons for each task are injected, and whether they are relevant."""
        for query in tqdm(self.queries, desc=f"{self.folder.name} blocks", leave=False):
            truth = self.truth[query["_id"]]
            self.figures.relevant.append(len(truth))
            self.figures.best.append(
                [
                    (
                        hit.score,
                        hit.similarity,
                        self.ids[str(hit.heuristic_id)] in truth,
                        count_tokens(write_line(hit._asdict() | {"id": hit.heuristic_id}, number=1)),
                    )
                    for hit in self._search(query["text"], MEANING_WEIGHT)[: FORMER_RULE.top_k]
                ]
            )

    def search_foreign(self, folder: Path) -> None:
        """Note how well the best lesson fits each of some tasks of another folder."""
        queries = read_queries(folder)
        # Every so many-th one, as neighbours in a file are often about the same thing.
        some = queries[:: -(-len(queries) // FOREIGN_TASKS)]
        rankings = [self._search(query["text"], MEANING_WEIGHT) for query in some]
        self.figures.foreign_fits[folder.name] = [max((hit.similarity for hit in of), default=0.0) for of in rankings]

    def _search(self, task: str, weight: float) -> list[Candidate]:
        project = self.memory.project
        state = read_state(project.pk, task=task)
        model_id, vector = embed(task, state.model_id)
        search = Search(project_id=project.pk, task=task, vector=vector, model_id=model_id, meaning_weight=weight)
        return find_candidates(search, state)


embed = cache(embed_task)


def read_queries(folder: Path) -> list[dict[str, Any]]:
    """Return the queries of a folder that have an answer."""
    truth = read_truth(folder / "qrels.tsv")
    return [query for query in read_lines(folder / "queries.jsonl") if truth[query["_id"]]]


def was_tuned_on(query: Mapping[str, Any]) -> bool:
    """Return whether the weights of 0.1.0 were chosen on a query; its figures are about the others."""
    return int(hashlib.sha256(f"half{query['_id']}".encode()).hexdigest(), 16) % 2 == 0


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


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="Measure only folders with one of these words.")
    parser.add_argument("--experience", action="store_true", help="Record experience.jsonl as source tasks.")
    parser.add_argument("--modes", nargs="+", default=["hybrid"])
    parser.add_argument("--left-out", action="store_true", help="Choose the weight and the floor on the other folders.")
    parser.add_argument("--limit", type=int, help="Only the first queries of each set.")
    parser.add_argument("--held-out-half", action="store_true", help="Only the queries that 0.1.0 was not tuned on.")
    parser.add_argument("--json", type=Path, help="Write what was measured to this file.")
    parser.add_argument("--from-json", nargs="+", type=Path, default=[], help="Add what earlier runs measured.")
    parser.add_argument(
        "--plot-blocks", type=Path, help="Draw the share of injected lessons that are relevant into this SVG file."
    )
    parser.add_argument("--plot", type=Path, help="Draw nDCG@10 of each set into this SVG file.")
    return parser.parse_args(arguments)


def main() -> None:
    # Otherwise there is a line for every request.
    logging.disable(logging.INFO)
    options = read_options()
    sets = [Figures(**figures) for path in options.from_json for figures in json.loads(path.read_text())]
    if options.folders:
        with scratch_database():
            for folder in measure(options):
                sets.append(folder)
                if options.json:
                    # After each folder, so that a run that is stopped keeps what it measured.
                    options.json.write_text(json.dumps([folder.as_json() for folder in sets]) + "\n")
    report(sets, options)


def measure(options: argparse.Namespace) -> Iterator[Figures]:
    """Measure the folders that were asked for, one after the other."""
    for folder in options.folders:
        if options.only and not any(word in folder.name for word in options.only):
            continue
        with override_settings(ERL_RETRIEVE_MEMORY_MB=MEMORY_MB):
            loaded = LoadedFolder(
                folder, experience=options.experience, limit=options.limit, held_out_half=options.held_out_half
            )
            loaded.search_plainly()
            snapshots.load(loaded.memory.project.pk)
            for mode in options.modes:
                loaded.ask_all(mode)
            loaded.search_blocks()
            if options.left_out:
                loaded.search_with_all_weights()
                for other in options.folders:
                    if other != folder:
                        loaded.search_foreign(other)
        yield loaded.figures


def report(sets: Sequence[Figures], options: argparse.Namespace) -> None:
    """Print all figures, and draw them if that was asked for."""
    rows = [*describe_all(sets, options.modes)]
    print(*map(write_row, rows), *write_means(rows), sep="\n")
    if options.plot:
        title = "nDCG@10 with 95% bootstrap intervals; dashed: best plain search"
        draw_bars(make_bars(rows), title=title, path=options.plot)
    if options.plot_blocks:
        title = "Share of injected lessons that are relevant, and of relevant lessons that are injected"
        draw_bars(make_block_bars(sets), title=title, path=options.plot_blocks)


if __name__ == "__main__":
    main()
