"""What ERL's ranking reaches on a set that had no say in its constants: leave one folder out.

One constant decides the order of lessons that have no earlier tasks: the weight of meaning against words. The product's
own search and score are asked with each weight of WEIGHTS; each folder is then judged with the weight that is best in
the mean over the kinds of queries of all other folders.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from django.test.utils import override_settings

from memory.retrieval.candidates import find_candidates
from memory.retrieval.database_search import Search
from memory.retrieval.project_state import read_state
from memory.retrieval.snapshot import snapshots
from memory.retrieval.task_vector import embed_task
from tests.bench.api_memory import ApiMemory

WEIGHTS = (0.3, 0.4, 0.5, 0.6, 0.7)
MEMORY_MB = 256


class Folder(Protocol):
    """A loaded folder: `ids` are document ids by heuristic id, `groups` the places of each kind of query."""

    memory: ApiMemory
    ids: dict[str, str]
    queries: list[dict[str, Any]]
    groups: dict[str, list[int]]
    by_weight: dict[float, np.ndarray]

    def judge(self, rankings: Iterable[Sequence[str]]) -> np.ndarray: ...


F = TypeVar("F", bound=Folder)


def leave_out(folders: Sequence[F]) -> Iterator[tuple[F, float]]:
    """Yield each folder with the weight of meaning that is best on all others; `by_weight` is filled before."""
    with override_settings(ERL_RETRIEVE_MEMORY_MB=MEMORY_MB):
        for folder in folders:
            snapshots.load(folder.memory.project.pk)
            found = [search_with_each_weight(folder, query["text"]) for query in folder.queries]
            for weight in WEIGHTS:
                folder.by_weight[weight] = folder.judge(rankings[weight] for rankings in found)
    for folder in folders:
        yield folder, choose_weight([other for other in folders if other is not folder])


def choose_weight(others: Sequence[Folder]) -> float:
    """Return the weight of meaning that is best on these folders; of equals the one nearest to a half."""
    by_distance = sorted(WEIGHTS, key=lambda weight: abs(weight - 0.5))
    return max(by_distance, key=lambda weight: sum(get_mean(other, weight) for other in others))


def get_mean(folder: Folder, weight: float) -> float:
    """Return the mean over the kinds of queries of a folder."""
    return float(np.mean([folder.by_weight[weight][members].mean() for members in folder.groups.values()]))


def search_with_each_weight(folder: Folder, task: str) -> dict[float, list[str]]:
    """Return the documents that the product's search finds for a task, best first, by the weight of meaning."""
    project = folder.memory.project
    state = read_state(project.pk, task=task)
    model_id, vector = embed_task(task, state.model_id)
    search = Search(project_id=project.pk, task=task, vector=vector, model_id=model_id)
    return {
        weight: [
            folder.ids[str(one.heuristic_id)] for one in find_candidates(replace(search, meaning_weight=weight), state)
        ]
        for weight in WEIGHTS
    }
