"""The plain searches that ERL's ranking is compared with: words alone, meaning alone, and both by rank.

`bench.baseline_table` prints their figures. They see what ERL sees, titles and texts, and nothing else; none of
their parameters was chosen here.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from django.db import connection

from memory.embeddings.base import Vectors, embed_composites
from memory.embeddings.minilm import MiniLM

K1 = 1.2  # Robertson and Zaragoza 2009
B = 0.75
RANK_CONSTANT = 60  # Cormack, Clarke and Buettcher 2009
DEPTH = 100  # documents of each list that rank fusion looks at

_WORD = re.compile(r"[^\W_]+")

Document = tuple[str, str]  # title and text
Embed = Callable[[Sequence[Sequence[str]]], Vectors]


def rank_baselines(documents: Sequence[Document], queries: Sequence[str]) -> dict[str, list[list[int]]]:
    """Return for each baseline and query the indexes of documents, best first."""
    words = score_words(documents, queries)
    meaning = score_meaning(documents, queries, embed=embed_with_minilm)
    rankings = {"bm25": [rank(scores) for scores in words], "dense": [rank(scores) for scores in meaning]}
    rankings["rrf"] = [fuse(lists) for lists in zip(rankings["bm25"], rankings["dense"], strict=True)]
    return rankings


def rank_by_past_requests(
    documents: Sequence[Document], requests: Sequence[Sequence[str]], queries: Sequence[str]
) -> dict[str, list[list[int]]]:
    """Return for each query the indexes of documents by past requests that each of them served.

    `nearest` goes by the nearest of them alone, `nearer` by the nearest of them and of the document itself.
    """
    past = [request for of_document in requests for request in of_document]
    owners = np.repeat(np.arange(len(requests)), [len(of_document) for of_document in requests])
    rankings: dict[str, list[list[int]]] = {"nearest": [], "nearer": []}
    of_documents = score_meaning(documents, queries, embed=embed_with_minilm)
    of_requests = score_meaning([("", request) for request in past], queries, embed=embed_with_minilm)
    for own, scores in zip(of_documents, of_requests, strict=True):
        nearest = np.zeros(len(requests))
        # `maximum.at` takes the best for each document, though its index comes several times.
        np.maximum.at(nearest, owners, scores)
        rankings["nearest"].append(rank(nearest))
        rankings["nearer"].append(rank(np.maximum(nearest, own)))
    return rankings


def score_words(documents: Sequence[Document], queries: Sequence[str]) -> list[np.ndarray]:
    """Return the BM25 scores of all documents, one array per query; 0 where no word is shared."""
    texts = [f"{title} {text}" for title, text in documents]
    stems = _get_stems([*texts, *queries])
    counts = [Counter(_split_words(text, stems)) for text in texts]
    lengths = np.array([sum(count.values()) for count in counts], float)
    # BM25's penalty for long documents, the same for all queries.
    lengths = K1 * (1 - B + B * lengths / lengths.mean())
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for index, count in enumerate(counts):
        for word, times in count.items():
            postings[word].append((index, times))
    scored = []
    for query in queries:
        scores = np.zeros(len(texts))
        for word in _split_words(query, stems):
            # With 1 added, as in Lucene: without it the weight of frequent words is negative.
            rarity = math.log(1 + (len(texts) - len(postings[word]) + 0.5) / (len(postings[word]) + 0.5))
            for index, times in postings[word]:
                scores[index] += rarity * times * (K1 + 1) / (times + lengths[index])
        scored.append(scores)
    return scored


def score_meaning(documents: Sequence[Document], queries: Sequence[str], *, embed: Embed) -> list[np.ndarray]:
    """Return the cosine of each query with all documents, one array per query."""
    return [*(embed([[query] for query in queries]) @ embed(documents).T)]


def embed_with_minilm(texts: Sequence[Sequence[str]]) -> Vectors:
    return embed_composites(_MINILM, texts)


def rank(scores: np.ndarray) -> list[int]:
    """Return the indexes of the best scores above 0, best first; equal ones in the order of the documents."""
    order = np.argsort(-scores, kind="stable")[:DEPTH]
    return [int(index) for index in order if scores[index] > 0]


def fuse(lists: Sequence[Sequence[int]]) -> list[int]:
    """Reciprocal rank fusion of several rankings."""
    scores: dict[int, float] = defaultdict(float)
    for ranking in lists:
        for position, index in enumerate(ranking, start=1):
            # Ranks instead of scores: those of the two searches have different scales.
            scores[index] += 1 / (RANK_CONSTANT + position)
    return sorted(scores, key=lambda index: (-scores[index], index))


def _get_stems(texts: Sequence[str]) -> dict[str, str]:
    """Return the English stem of every word of the texts, as PostgreSQL's dictionary has it; "" for stop words."""
    words = sorted({word for text in texts for word in _WORD.findall(text.lower())})
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT word, coalesce((ts_lexize('english_stem', word))[1], '') FROM unnest(%s::text[]) AS word", [words]
        )
        return dict(cursor.fetchall())


def _split_words(text: str, stems: dict[str, str]) -> list[str]:
    return [stem for word in _WORD.findall(text.lower()) if (stem := stems[word])]


_MINILM = MiniLM()
