"""Words alone, meaning alone and rank fusion on sets in BEIR layout.

    uv run python -m bench.baseline_table FOLDER… [--json FILE]

Prints a Markdown table of nDCG@10 with 95% percentile bootstrap intervals over queries (see bench/baselines.py).
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.baselines import rank_baselines
from bench.retrieval_figures import get_interval
from bench.retrieval_quality import (
    get_groups,
    get_ndcg,
    read_lines,
    read_truth,
    scratch_database,
)


def measure_baselines(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield nDCG@10 of each baseline, for each kind of query of a set."""
    documents = read_lines(folder / "corpus.jsonl")
    truth = read_truth(folder / "qrels.tsv")
    queries = [query for query in read_lines(folder / "queries.jsonl") if truth[query["_id"]]]
    rankings = rank_baselines(
        [(document.get("title", ""), document["text"]) for document in documents], [query["text"] for query in queries]
    )
    for method, ranking in rankings.items():
        values = np.array(
            [
                get_ndcg([documents[index]["_id"] for index in indexes], truth[query["_id"]])
                for query, indexes in zip(queries, ranking, strict=True)
            ]
        )
        for group, members in get_groups([query["_id"] for query in queries]).items():
            low, high = get_interval(values[members])
            yield {
                "set": folder.name,
                "queries": group,
                "n": len(members),
                "method": method,
                "ndcg_at_10": round(float(values[members].mean()), 4),
                "low": round(low, 4),
                "high": round(high, 4),
            }


def print_table(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Print a row for each baseline and kind of query, and return the rows."""
    rows = []
    print("| set | queries | n | method | nDCG@10 (95 % CI) |\n|---|---|---|---|---|")
    for folder in folders:
        for row in measure_baselines(folder):
            rows.append(row)
            print(
                f"| {row['set']} | {row['queries']} | {row['n']} | {row['method']} "
                f"| {row['ndcg_at_10']:.3f} ({row['low']:.3f}–{row['high']:.3f}) |",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    options = parser.parse_args()
    with scratch_database():
        rows = print_table(options.folders)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
