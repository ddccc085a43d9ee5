"""What the comparison of texts gets wrong: `python -m bench.same_meaning`.

Reads the pairs of tests/data/same_meaning and prints a Markdown table by kind of pair, for each set of pairs, and the
paraphrases that are not found.
"""

import csv
import os
from collections import Counter
from pathlib import Path

import django
import numpy as np

DATA = Path(__file__).parents[1] / "tests" / "data" / "same_meaning"


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
    django.setup()
    from memory.embeddings.base import embed_composites
    from memory.embeddings.registry import get_embedder
    from memory.meaning.comparison import compare_texts

    with (DATA / "pairs.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    embedder = get_embedder()
    assert embedder is not None
    vectors = embed_composites(embedder, [(row[name],) for row in rows for name in ("one", "other")])
    # Row by row: unit vectors, so the inner product of each pair is its cosine.
    similarities = np.einsum("ij,ij->i", vectors[::2], vectors[1::2])
    counted: Counter[tuple[str, ...]] = Counter()
    missed = []
    for row, similarity in zip(rows, similarities, strict=True):
        comparison = compare_texts(row["one"], row["other"], similarity=float(similarity))
        counted[row["kind"], row["set"], "opposite" if comparison.is_opposite else comparison.verdict.value] += 1
        if row["kind"] == "same" and comparison.verdict != "same":
            missed.append(f"- {comparison.verdict.value}, {comparison.reason}: {row['one']} | {row['other']}")
    print("| pairs | set | same | doubtful | different | opposite |\n|---|---|---|---|---|---|")
    for kind, name in sorted({(kind, name) for kind, name, _ in counted}):
        cells = [counted[kind, name, verdict] for verdict in ("same", "doubtful", "different", "opposite")]
        print(f"| {kind} | {name} | " + " | ".join(map(str, cells)) + " |")
    print("\n".join(["", *missed]))


if __name__ == "__main__":
    main()
