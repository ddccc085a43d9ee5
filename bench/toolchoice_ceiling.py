"""What the agent of `toolchoice` could gain at most, calculated without the product.

    uv run python -m bench.toolchoice_ceiling

Every lesson of the 800 earlier requests is there, the nearest are found by vectors alone, and the agent's rule is
applied to them. Rows: whose vectors the agent compares with, and whose find the lessons.
"""

import os

import django
import numpy as np

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
django.setup()

from evaluation.suites.toolchoice.agent import AgentVectors  # noqa: E402
from evaluation.suites.toolchoice.data import load  # noqa: E402
from memory.embeddings.base import Vectors  # noqa: E402
from memory.embeddings.minilm import MiniLM  # noqa: E402

TRIES = 3


def main() -> None:
    data = load()
    names = list(data.tools)
    places = {name: index for index, name in enumerate(names)}
    texts = [
        list(data.tools.values()),
        [request.text for request in data.experience],
        [request.text for request in data.tests],
    ]
    agent_vectors, product = AgentVectors(), MiniLM()
    for part in texts:
        agent_vectors.prefetch(part)
    vectors = {
        "published": [np.stack([agent_vectors(text) for text in part]) for part in texts],
        "product": [product.embed(part) for part in texts],
    }
    right = [np.array([places[request.tool] for request in part]) for part in (data.experience, data.tests)]
    print("agent      lessons by      k   none  success  uplift  without avoid")
    for agent, finder in (("published", "published"), ("published", "product"), ("product", "product")):
        for k in (1, 3, 5, 20, len(right[0])):
            none, avoiding = play(vectors[agent], vectors[finder], right, k=k, avoids=True)
            _, using = play(vectors[agent], vectors[finder], right, k=k, avoids=False)
            figures = f"{none:.3f}    {avoiding:.3f}  {avoiding - none:+.3f}  {using - none:+.3f}"
            print(f"{agent:<10} {finder:<10} {k:>6}  {figures}")


def play(
    agent: list[Vectors], finder: list[Vectors], right: list[np.ndarray], *, k: int, avoids: bool
) -> tuple[float, float]:
    """Return the share of new requests solved without lessons and with the k nearest."""
    tools, experience, tests = agent
    tried = np.argsort(-(experience @ tools.T), axis=1, kind="stable")[:, :TRIES]
    scores, request_similarity, similarity = tests @ tools.T, tests @ experience.T, finder[2] @ finder[1].T
    solved = 0
    for row in range(len(tests)):
        own = scores[row].copy()
        near = np.argsort(-similarity[row], kind="stable")[:k]
        lessons = [
            (request_similarity[row, neighbour], list(tried[neighbour]), right[0][neighbour]) for neighbour in near
        ]
        for closeness, tools_tried, tool in lessons if avoids else ():
            rejected = tools_tried[: tools_tried.index(tool)] if tool in tools_tried else tools_tried
            for rejected_tool in rejected:
                # The rule of `ToolAgent.choose`: avoid first, then use.
                own[rejected_tool] = min(own[rejected_tool], 1 - closeness)
        for closeness, tools_tried, tool in lessons:
            if tool in tools_tried:
                own[tool] = max(own[tool], closeness)
        solved += own.argmax() == right[1][row]
    return float(np.mean(scores.argmax(axis=1) == right[1])), solved / len(tests)


if __name__ == "__main__":
    main()
