"""How near the search of passages comes to that of lessons on the same texts.

    uv run python -m bench.passages FOLDER… [--limit 300]

Each folder is in BEIR layout, as for bench/retrieval_quality.py. Its documents become approved lessons of a
scratch project and passages of another; its queries are asked to both through the HTTP API; and nDCG@10 is taken over
all of them, with a 95% bootstrap interval of the difference, query by query.
"""

import argparse
import logging
import os
import time
from pathlib import Path

os.environ["DJANGO_SETTINGS_MODULE"] = "erl_site.settings"
import django  # isort: skip

django.setup()

import numpy as np  # noqa: E402
from tqdm import tqdm  # noqa: E402

from bench.api_memory import connect, post  # noqa: E402
from bench.retrieval_figures import describe  # noqa: E402
from bench.retrieval_quality import CUTOFF, LoadedFolder, scratch_database  # noqa: E402
from memory.passages.storage import NewPassage, insert_passage  # noqa: E402
from memory.passages.vectors import embed_new_passages  # noqa: E402
from memory.projects.actors import Actor  # noqa: E402
from memory.projects.api_keys import create_api_key  # noqa: E402
from memory.projects.models import ApiKey, Project  # noqa: E402


class Archive:
    """The lessons of a folder as passages of a project of their own, and a client that may search them."""

    def __init__(self, loaded: LoadedFolder) -> None:
        project = Project.objects.create(slug=f"passages-{Project.objects.count()}", name=loaded.folder.name)
        self.client = connect(create_api_key(project, client="agent", scopes=[ApiKey.Scope.MEMORY_READ]).token)
        by = Actor.policy("bench")
        self.ids: dict[str, list[str]] = {}
        for lesson in tqdm(loaded.lessons, desc="passages", leave=False):
            passage, _ = insert_passage(project, NewPassage(text=f"{lesson.trigger}\n{lesson.guideline}"), by=by)
            # The same text is kept once.
            self.ids.setdefault(str(passage.pk), []).append(lesson.id)
        # In a running system the periodic work embeds them.
        while embed_new_passages():
            pass

    def find(self, text: str) -> list[str]:
        answer = post(self.client, "/passages/search", {"query": text, "limit": CUTOFF})
        return [self.ids[result["id"]][0] for result in answer["results"]]


def measure(folder: Path, limit: int | None) -> str:
    loaded = LoadedFolder(folder, experience=False, limit=limit)
    loaded.ask_all("hybrid")
    archive = Archive(loaded)
    durations, rankings = [], []
    for query in tqdm(loaded.queries, desc=f"{folder.name} passages", leave=False):
        began = time.perf_counter()
        rankings.append(archive.find(query["text"]))
        durations.append((time.perf_counter() - began) * 1000)
    scores, lessons = np.array(loaded.judge(rankings)), np.array(loaded.figures.scores["hybrid"])
    difference = describe("d", scores - lessons)
    return (
        f"{folder.name:24} n={len(loaded.queries):<5} texts {len(loaded.lessons):<5} lessons {lessons.mean():.4f}  "
        f"passages {scores.mean():.4f}  difference {difference['d']:+.4f} "
        f"({difference['d_low']:+.4f} to {difference['d_high']:+.4f})  p50 {np.median(durations):.1f} ms"
    )


def main() -> None:
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--limit", type=int, help="Only the first queries of each set.")
    options = parser.parse_args()
    with scratch_database():
        for folder in options.folders:
            print(measure(folder, options.limit), flush=True)


if __name__ == "__main__":
    main()
