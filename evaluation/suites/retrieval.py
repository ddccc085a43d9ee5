"""Evaluate the search against known answers, in folders with BEIR layout (corpus.jsonl, queries.jsonl, qrels.tsv)."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.arms import EVALUATION, ArmQuestion, ask, find_arm
from evaluation.errors import EvaluationError, LabelIndexed
from evaluation.reports.figures import estimate_json, power_note, rounded
from evaluation.reports.metrics import hit_at, ndcg_at, precision_at, recall_at, reciprocal_rank
from evaluation.reports.statistics import bootstrap_mean, paired_difference
from evaluation.suites.base import About, Options, Progress, Suite, UnitResult
from evaluation.suites.loop.store import approve_unread
from evaluation.suites.timing import milliseconds_since, percentiles
from memory.curation.proposals import propose_heuristic
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import count_terms
from memory.projects.models import Project

BUNDLED = Path(__file__).resolve().parents[1] / "data"
DEPTH = 20
SAME_AS_THERE = "Do the same as in that task."  # the advice of a document without a title
INDEXED = ("title", "text")
ARMS = ("random:20", "lexical:20", "embedding:20", "hybrid:20")
METRICS: dict[str, Callable[[Sequence[str], Mapping[str, float]], float]] = {
    "recall@1": partial(recall_at, k=1),
    "recall@5": partial(recall_at, k=5),
    "recall@10": partial(recall_at, k=10),
    "recall@20": partial(recall_at, k=20),
    "hit@5": partial(hit_at, k=5),
    "precision@5": partial(precision_at, k=5),
    "nDCG@10": partial(ndcg_at, k=10),
    "MRR": reciprocal_rank,
}
MAIN = "nDCG@10"


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A corpus, queries, and the relevant documents of each query."""

    corpus: dict[str, dict[str, Any]]
    queries: dict[str, str]
    relevant: dict[str, dict[str, float]]


class RetrievalSuite(Suite):
    """One unit per folder. Each document becomes an approved lesson: title as condition, text as advice."""

    about = About(
        name="retrieval",
        title="Search: does the product find the known answers?",
        data=(
            "MetaTool (1,467 requests, 199 tools), tau-bench banking (49 tasks, 698 procedures) and retail (45 tasks, "
            "500 past ones), or any folders in BEIR layout with --data"
        ),
        licence="MIT (MetaTool, tau2-bench, tau-bench); your own folders have their own",
        splits=(
            "Queries and documents are different texts. Only title and text are indexed, never a label such as "
            "“writes” in retail."
        ),
        seeds="The seed selects the queries, if --limit is given, and the bootstrap samples of the intervals.",
        proves=(
            "This shows how well the product's search finds known answers. It does not show whether an agent does "
            "better with them."
        ),
    )

    def units(self, options: Options) -> list[str]:
        return [str(folder) for folder in _find_folders(options.data_folder)]

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        folder = read_folder(Path(unit))
        refuse_indexed_label(folder, name=Path(unit).name)
        queries = _sample(list(folder.queries), options.limit, seed=options.seed)
        project = Project.objects.create(slug=f"retrieval-{Path(unit).name}"[:50], name=Path(unit).name)
        texts: dict[str, str] = {}
        ingest_ms = []
        for number, (document_id, document) in enumerate(folder.corpus.items(), 1):
            started = time.perf_counter()
            texts[_ingest(project, document)] = document_id
            ingest_ms.append(milliseconds_since(started))
            progress(f"{Path(unit).name}, indexing", number, len(folder.corpus))
        count_terms(project.pk)
        arms: dict[str, Any] = {}
        timing: dict[str, Any] = {"ingest_ms": percentiles(ingest_ms), "retrieve_ms": {}}
        for name in options.arms or ARMS:
            arm = find_arm(name, k=DEPTH)
            rows, spent = [], []
            for number, query in enumerate(queries, 1):
                started = time.perf_counter()
                question = ArmQuestion(
                    task=folder.queries[query], seed=f"{options.seed}", budget_tokens=4000, pool=DEPTH
                )
                answer = ask(arm, project, question)
                spent.append(milliseconds_since(started))
                ranking = [texts[item["id"]] for item in answer.listed]
                rows.append([rounded(metric(ranking, folder.relevant[query])) for metric in METRICS.values()])
                progress(f"{Path(unit).name}, {name}", number, len(queries))
            arms[name] = rows
            timing["retrieve_ms"][name] = percentiles(spent)
        return {"queries": queries, "documents": len(folder.corpus), "arms": arms, "timing": timing}

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        figures, notes, per_task = [], [], {}
        tasks: dict[str, list[str]] = {}
        for unit, result in units.items():
            name = Path(unit).name
            columns = {arm: np.array(rows).T for arm, rows in result["arms"].items()}
            best = "hybrid:20" if "hybrid:20" in columns else next(iter(columns))
            tasks[name] = result["queries"]
            notes.append(f"{name}: {len(result['queries'])} queries over {result['documents']} documents.")
            for arm, table in columns.items():
                for metric, values in zip(METRICS, table, strict=True):
                    estimate = bootstrap_mean(values.tolist(), seed=options.seed)
                    figures.append({"arm": f"{name}/{arm}", "name": metric, **estimate_json(estimate)})
                at = list(METRICS).index(MAIN)
                per_task[f"{name}/{arm}"] = table[at].tolist()
                if arm != best:
                    lead = paired_difference(columns[best][at].tolist(), table[at].tolist(), seed=options.seed)
                    figures.append(
                        {"arm": f"{name}/{arm}", "name": f"{MAIN}: {best} ahead by", "paired": True}
                        | estimate_json(lead)
                    )
        n = sum(map(len, tasks.values()))
        return {
            **self.about.as_json(),
            "units": [Path(unit).name for unit in units],
            "n": n,
            "arms": [],
            "figures": figures,
            "checks": [],
            "curve": [],
            "notes": notes,
            "main_figure": MAIN,
            "power": _note_power({name: len(asked) for name, asked in tasks.items()}),
            "tasks": tasks,
            "per_task": per_task,
        }


def _note_power(counts: Mapping[str, int]) -> str:
    """Say which differences can show, once for all data sets with the same number of queries."""
    same: dict[int, list[str]] = {}
    for name, count in counts.items():
        same.setdefault(count, []).append(name)
    return " ".join(f"{', '.join(names)}: {power_note(count)}" for count, names in same.items())


def read_folder(folder: Path) -> Folder:
    """Read a folder in BEIR layout, leaving out queries without a relevant document.

    Raises:
        EvaluationError: a file is missing or malformed.
    """
    try:
        corpus = {row["_id"]: row for row in _read(folder / "corpus.jsonl")}
        queries = {row["_id"]: row["text"] for row in _read(folder / "queries.jsonl")}
        relevant: dict[str, dict[str, float]] = {}
        # BEIR's files begin with a line of headings.
        for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            query, document, score = line.split("\t")
            # BEIR lists documents that were judged irrelevant with 0.
            if float(score) > 0:
                relevant.setdefault(query, {})[document] = float(score)
    except (OSError, KeyError, ValueError) as error:
        raise EvaluationError(
            f"The folder {folder} cannot be read as corpus.jsonl, queries.jsonl and qrels.tsv (BEIR's layout): {error}."
        ) from error
    # A query without a relevant document has no right answer to find.
    queries = {query: text for query, text in queries.items() if query in relevant}
    return Folder(corpus=corpus, queries=queries, relevant=relevant)


def refuse_indexed_label(folder: Folder, *, name: str) -> None:
    """Refuse a folder whose labels or queries are part of the indexed text.

    Raises:
        LabelIndexed: names the member and the number of documents.
    """
    asked = {text.strip() for text in folder.queries.values()}
    for member in sorted({key for document in folder.corpus.values() for key in document} - {"_id", *INDEXED}):
        leaking = [document for document in folder.corpus.values() if _leaks(document, member)]
        if leaking:
            raise LabelIndexed(
                f"{name}: the indexed text of {len(leaking)} documents contains their {member!r}. Remove it from the "
                "text, or remove the member from corpus.jsonl if it is not a label."
            )
    if any(_text(document) in asked for document in folder.corpus.values()):
        raise LabelIndexed(f"{name}: a document repeats a query word for word. Remove it from the corpus.")


def _leaks(document: dict[str, Any], member: str) -> bool:
    value = document.get(member)
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    text = f"{document.get('title', '')}\n{_text(document)}"
    # Short labels occur in any text by chance.
    labels = [word for word in words if isinstance(word, str) and len(word) > 3]
    return bool(labels) and all(label in text for label in labels)


def _text(document: dict[str, Any]) -> str:
    return str(document.get("text", "")).strip()


def _ingest(project: Project, document: dict[str, Any]) -> str:
    text, title = _text(document) or document["_id"], document.get("title", "").strip()
    lesson = HeuristicText(trigger=title or text, guideline=text if title else SAME_AS_THERE, scope="project")
    heuristic = propose_heuristic(project, text=lesson, by=EVALUATION)
    approve_unread(heuristic, reason="A document of an evaluation's data set.")
    return str(heuristic.pk)


def _find_folders(data: Path | None) -> list[Path]:
    if data is None:
        data = BUNDLED
    folders = [data, *sorted(data.iterdir())] if data.is_dir() else []
    collections = [folder.resolve() for folder in folders if (folder / "qrels.tsv").is_file()]
    if not collections:
        raise EvaluationError(f"There is no folder with corpus.jsonl, queries.jsonl and qrels.tsv in {data}.")
    return collections


def _sample(queries: list[str], limit: int | None, *, seed: int) -> list[str]:
    if limit is None or limit >= len(queries):
        return queries
    chosen = np.random.default_rng(seed).choice(len(queries), size=limit, replace=False)
    return [queries[index] for index in sorted(chosen)]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
