"""The bundled embedder in integers and in floats: time, memory, and how well the search finds with either.

    uv run python -m bench.embedder_figures [FOLDER…] [--rounds 200] [--limit QUERIES]

Time is the processor's, of a task of 18 words, both in turn in one process. Memory is what a process of its own holds
more after it has embedded. Folders are in BEIR layout (bench/retrieval_quality.py): their documents become
approved lessons that have vectors of both, and each query is searched with either by the product's own search in the
database. Printed are nDCG@10 of hybrid and of meaning alone, and integers − floats, query by query, with 95% bootstrap
intervals.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from bench.retrieval_quality import (  # sets up Django
    CUTOFF,
    get_groups,
    get_ndcg,
    read_lessons,
    read_queries,
    read_truth,
    scratch_database,
)

import numpy as np  # isort: skip
from bench.retrieval_figures import get_interval
from memory.embeddings.minilm import FloatMiniLM, MiniLM
from memory.index.heuristic_vectors import activate_model, count_terms, embed_heuristics
from memory.projects.models import Project
from memory.retrieval.candidates import find_in_database
from memory.retrieval.database_search import Search
from memory.retrieval.models import EmbeddingModel
from memory.retrieval.scoring import MEANING_WEIGHT
from memory.retrieval.task_vector import make_query_vector
from tests.factories import make_heuristic, make_project

EMBEDDERS = (FloatMiniLM(), MiniLM())
TASK = "Cancel the second passenger of my booking to Lisbon and refund the fare to the card I paid with"
MEMORY = """
from memory.embeddings.minilm import FloatMiniLM, MiniLM
import onnxruntime, tokenizers, pathlib, re
def held():
    text = pathlib.Path("/proc/self/smaps_rollup").read_text()
    return sum(int(found) for found in re.findall(r"^Private_Dirty: +(\\d+)", text, re.M))
before = held()
{name}().embed([{task!r}])
print((held() - before) // 1024)
"""


def measure_time(rounds: int) -> list[float]:
    """Return the milliseconds of processor time that a task takes in floats and in integers: medians."""
    taken: list[list[float]] = [[] for _ in EMBEDDERS]
    for _ in range(rounds):
        # In turn, so that a machine that slows down slows both.
        for embedder, of_embedder in zip(EMBEDDERS, taken, strict=True):
            # The processor's time, which other processes do not add to.
            begun = time.thread_time()
            embedder.embed([TASK])
            of_embedder.append(1000 * (time.thread_time() - begun))
    return [float(np.median(seconds)) for seconds in taken]


def measure_memory() -> list[int]:
    """Return the megabytes that a process holds more once it has embedded in floats and in integers."""
    # A process for each: memory that was once taken is not given back.
    programs = [MEMORY.format(name=type(embedder).__name__, task=TASK) for embedder in EMBEDDERS]
    return [int(subprocess.check_output([sys.executable, "-c", program])) for program in programs]


def load(folder: Path) -> tuple[Project, dict[str, str]]:
    """Make a project that serves the documents of a folder with vectors of both; return the document of each lesson."""
    project = make_project()
    documents = {}
    for lesson in read_lessons(folder, experience=False):
        made = make_heuristic(project=project, status="approved", trigger=lesson.trigger, guideline=lesson.guideline)
        documents[str(made.pk)] = lesson.id
    for embedder in EMBEDDERS:
        model, _ = EmbeddingModel.objects.get_or_create(
            pk=embedder.model_id, defaults={"dimensions": embedder.dimensions}
        )
        activate_model(model)
        embed_heuristics([UUID(id) for id in documents], model=model)
        count_terms(project.pk)
    return project, documents


def compare(folder: Path, *, limit: int | None) -> list[str]:
    """Return a Markdown row for each kind of query of a folder."""
    project, documents = load(folder)
    queries, truth = read_queries(folder)[:limit], read_truth(folder / "qrels.tsv")
    scores = np.zeros((len(queries), 2, len(EMBEDDERS)))
    for index, query in enumerate(queries):
        for column, embedder in enumerate(EMBEDDERS):
            vector = make_query_vector(embedder, query["text"])
            for row, weight in enumerate((MEANING_WEIGHT, 1.0)):
                search = Search(
                    project_id=project.pk,
                    task=query["text"],
                    vector=vector,
                    model_id=embedder.model_id,
                    meaning_weight=weight,
                )
                neighbours = find_in_database(search, model_id=embedder.model_id)
                ranking = [documents[str(neighbour.heuristic_id)] for neighbour in neighbours[:CUTOFF]]
                scores[index, row, column] = get_ndcg(ranking, truth[query["_id"]])
    return [
        describe(f"{folder.name}, {kind}", scores[members])
        for kind, members in get_groups([query["_id"] for query in queries]).items()
    ]


def describe(name: str, scores: np.ndarray) -> str:
    cells = [name, str(len(scores))]
    for floats, integers in (scores[:, row].T for row in range(2)):
        low, high = get_interval(integers - floats)
        difference = f"{(integers - floats).mean():+.4f} ({low:+.4f} to {high:+.4f})"
        cells += [f"{floats.mean():.3f}", f"{integers.mean():.3f}", difference]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--limit", type=int, help="Only the first queries of each set.")
    options = parser.parse_args(arguments)
    floats, integers = measure_time(options.rounds)
    print(f"time: floats {floats:.2f} ms, integers {integers:.2f} ms, ratio {integers / floats:.2f}")
    print("memory: floats {} MB, integers {} MB".format(*measure_memory()), flush=True)
    if options.folders:
        print("| set | n | hybrid, floats | integers | difference | meaning, floats | integers | difference |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        with scratch_database():
            for folder in options.folders:
                print(*compare(folder, limit=options.limit), sep="\n", flush=True)


if __name__ == "__main__":
    main()
