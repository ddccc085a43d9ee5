"""Measure how well retrieval works in other languages, and how often it gives lessons for questions that none answers.

    uv run python -m bench.languages [--only LANGUAGE…] [--json FILE] [--plot docs/images/languages.svg FILE…]

Sixty lessons with a question each, and thirty questions on other subjects, are written in each of eight languages. One
half was used to choose floors (`memory/embeddings/data/calibration.jsonl`, which also calibrates embedding models); the
other half is only measured (`held_out.jsonl`), and so are twenty more questions on other subjects (`unrelated.jsonl`),
which somebody wrote who did not know the search. The embedder is the one in ERL_EMBEDDER. Lessons are loaded, and
answers requested, through the HTTP API of a scratch project; the order of all lessons comes from the search in this
process. --plot draws what earlier runs wrote.
"""

import argparse
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tests.servers  # noqa: F401 - starts them

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django  # isort: skip

django.setup()

from django.conf import settings  # noqa: E402
from django.test.utils import override_settings  # noqa: E402

from bench.api_memory import ApiMemory, Lesson  # noqa: E402
from bench.plots import Bar, draw_bars  # noqa: E402
from bench.retrieval_quality import CUTOFF, MEMORY_MB, get_ndcg, scratch_database  # noqa: E402
from memory.embeddings.registry import forget_embedders  # noqa: E402
from memory.housekeeping import embed_new_heuristics  # noqa: E402
from memory.index.calibration import QUESTIONS, read_questions  # noqa: E402
from memory.retrieval.candidates import find_candidates  # noqa: E402
from memory.retrieval.database_search import Search  # noqa: E402
from memory.retrieval.project_state import read_state  # noqa: E402
from memory.retrieval.ranking import weigh_meaning  # noqa: E402
from memory.retrieval.task_vector import embed_task  # noqa: E402

HELD_OUT = Path(__file__).parent / "held_out.jsonl"
UNRELATED = Path(__file__).parent / "unrelated.jsonl"
RESAMPLES = 2000


def measure(language: str, embedder: str) -> Iterator[dict[str, Any]]:
    """Ask all questions in one language; yield the figures of each half."""
    halves = {"calibration": read_questions(QUESTIONS)[language], "held out": read_questions(HELD_OUT)[language]}
    lessons = [row for rows in halves.values() for row in rows if "id" in row]
    memory = ApiMemory(language)
    ids = memory.load(Lesson(id=str(row["id"]), trigger=row["trigger"], guideline=row["guideline"]) for row in lessons)
    # A running system does this within a minute.
    embed_new_heuristics()
    more_given = [bool(find_injected(memory, row["unrelated"])) for row in read_questions(UNRELATED)[language]]
    for half, rows in halves.items():
        scores, right, given = [], [], []
        for row in rows:
            task = row.get("question") or row["unrelated"]
            injected = [ids[id] for id in find_injected(memory, task)]
            if "question" in row:
                scores.append(get_ndcg([ids[id] for id in search(memory, task)], {str(row["id"])}))
                right.append(str(row["id"]) in injected)
            else:
                given.append(bool(injected))
        yield {
            "embedder": embedder,
            "language": language,
            "half": half,
            "scores": [round(score, 4) for score in scores],
            "given_right": round(float(np.mean(right)), 3),
            "unrelated_given": round(float(np.mean(given)), 3),
            "more_unrelated_given": round(float(np.mean(more_given)), 3),
        }


def find_injected(memory: ApiMemory, task: str) -> list[str]:
    """Return the ids of the lessons that the block for a task holds."""
    answer = memory.ask(task, top_k=CUTOFF)
    return [item["id"] for item in answer["items"] if item["injected"]]


def search(memory: ApiMemory, task: str) -> list[str]:
    """Return the ids of the lessons in order, whether they fit or not, from the search in this process."""
    state = read_state(memory.project.pk, task=task)
    model_id, vector = embed_task(task, state.model_id)
    asked = Search(
        project_id=memory.project.pk,
        task=task,
        vector=vector,
        model_id=model_id,
        meaning_weight=weigh_meaning(state.language, state.floors),
    )
    return [str(candidate.heuristic_id) for candidate in find_candidates(asked, state)]


def get_interval(scores: Sequence[float]) -> tuple[float, float]:
    """Return the 95% percentile bootstrap interval of a mean."""
    drawn = np.random.default_rng(1).choice(scores, (RESAMPLES, len(scores))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def write_row(figures: dict[str, Any]) -> str:
    low, high = get_interval(figures["scores"])
    return (
        f"| {figures['embedder']} | {figures['language']} | {figures['half']} | {np.mean(figures['scores']):.3f} "
        f"({low:.3f}–{high:.3f}) | {figures['given_right']:.0%} | {figures['unrelated_given']:.0%} | "
        f"{figures['more_unrelated_given']:.1%} |"
    )


def draw(files: Sequence[Path], path: Path) -> None:
    """Draw nDCG@10 on the held-out halves, one series for each embedder."""
    bars = []
    for figures in (row for file in files for row in json.loads(file.read_text()) if row["half"] == "held out"):
        low, high = get_interval(figures["scores"])
        mean = float(np.mean(figures["scores"]))
        bars.append(Bar(group=figures["language"], series=figures["embedder"], value=mean, low=low, high=high))
    draw_bars(bars, title="nDCG@10 on held-out questions by language, with 95% bootstrap intervals", path=path)


def main() -> None:
    # Otherwise there is a line for every request.
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="LANGUAGE")
    parser.add_argument("--embedder", help="In place of ERL_EMBEDDER.")
    parser.add_argument("--name", default="bundled", help="What the embedder is called in the table.")
    parser.add_argument("--json", type=Path, help="Write what was measured to this file.")
    parser.add_argument("--plot", nargs="+", type=Path, metavar="FILE", help="The SVG file, then files of --json.")
    options = parser.parse_args()
    if options.plot:
        draw(options.plot[1:], options.plot[0])
        return
    measured = []
    embedder = options.embedder or settings.ERL_EMBEDDER
    print("| embedder | language | half | nDCG@10 | right lesson given | unrelated given | of twenty more |")
    print("|---|---|---|---|---|---|---|")
    with scratch_database(), override_settings(ERL_RETRIEVE_MEMORY_MB=MEMORY_MB, ERL_EMBEDDER=embedder):
        forget_embedders()
        for language in options.only or read_questions(HELD_OUT):
            for figures in measure(language, options.name):
                measured.append(figures)
                print(write_row(figures), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(measured) + "\n")


if __name__ == "__main__":
    main()
