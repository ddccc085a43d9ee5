"""Search passages by meaning, words, names, tags and time.

The statement compares every passage in question with what is looked for and says how similar they are; where there are
many, only those that an index of vectors or their rare words find. The score is that of lessons
(memory/retrieval/scoring.py), which have tasks besides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import structlog
from django.db import connection
from django.db.models import QuerySet
from pgvector import HalfVector

from memory.errors import EmbedderError
from memory.index.vector_index import has_index
from memory.limits import MAX_FOUND_PASSAGES
from memory.passages.models import Passage, PassageEmbedding
from memory.passages.vectors import get_searched_model
from memory.projects.models import Project
from memory.redaction import redact_text
from memory.retrieval.models import EmbeddingModel
from memory.retrieval.name_match import MAX_NAMES, MOST_LESSONS, choose_added, find_names, weigh
from memory.retrieval.ranking import FLOORS, LISTED_SHARE, find_floor, find_listing_floor, weigh_meaning
from memory.retrieval.scoring import Parts, fit_floors, score_heuristic
from memory.retrieval.task_vector import embed_task

log = structlog.get_logger(__name__)

FEW = 5_000  # passages that are compared one by one, index or not
BREADTH = 400  # passages taken by their vectors
MATCHES = 2_000  # passages that the rare words of a question may occur in together

_OF = """
        p.project_id = %(project)s AND p.quarantine_order_id IS NULL
        AND (%(owner)s::uuid IS NULL OR p.owner = %(owner)s::uuid OR p.owner IS NULL)
        AND (%(tags)s::text[] = '{}' OR CASE WHEN %(all_tags)s THEN p.tags @> %(tags)s::text[]
                                             ELSE p.tags && %(tags)s::text[] END)
        AND (%(since)s::timestamptz IS NULL OR p.created_at >= %(since)s)
        AND (%(until)s::timestamptz IS NULL OR p.created_at < %(until)s)
"""
_SCOPE = f"""
    FROM memory_passage p JOIN memory_passageembedding e ON e.passage_id = p.id AND e.embedding_model_id = %(model)s
    WHERE {_OF}
"""
_COUNT = f"SELECT count(*) FROM (SELECT FROM memory_passage p WHERE {_OF} LIMIT %(most)s) AS found"  # noqa: S608
_COMPARE = f"""SELECT p.id, -(e.vector <#> (SELECT vector FROM query)) AS meaning,
           -(e.terms <#> (SELECT terms FROM query)) AS words {_SCOPE}"""  # noqa: S608 - constants of this file
_SEARCH = """
WITH said AS MATERIALIZED (
    SELECT term, word, texts, weight FROM memory_passage_words(%(project)s, %(model)s, %(text)s)
), query AS MATERIALIZED (
    SELECT %(vector)s::halfvec AS vector,
           memory_word_vector(array_agg(term), array_agg(word), array_agg(weight)) AS terms
    FROM said
), rare AS MATERIALIZED (
    SELECT array_agg(term) AS terms
    FROM (SELECT term, sum(texts) OVER (ORDER BY texts, term) AS matches FROM said WHERE texts > 0) AS summed
    WHERE matches <= %(matches)s
), compared AS MATERIALIZED (
    COMPARED
), nearest AS (
    (SELECT id FROM compared
     ORDER BY %(weight)s * coalesce(meaning, 0) + (1 - %(weight)s) * coalesce(words, 0) DESC, id LIMIT %(limit)s)
    UNION
    SELECT id FROM compared WHERE id = ANY(%(named)s::uuid[])
)
SELECT id, meaning, words FROM compared JOIN nearest USING (id)
"""
# By an index: the nearest vectors, and the passages with the rarest words, so many words as %(matches)s passages have.
_FOUND = f"""
    ({_COMPARE} AND e.project_id = %(project)s
     ORDER BY e.vector::halfvec(DIMENSIONS) <#> %(vector)s::halfvec(DIMENSIONS) LIMIT %(breadth)s)
    UNION
    ({_COMPARE} AND e.project_id = %(project)s AND e.term_ids && (SELECT terms FROM rare) LIMIT 2 * %(matches)s)
    UNION
    ({_COMPARE} AND p.id = ANY(%(named)s::uuid[]))
"""  # noqa: S608 - constants of this file
_NAMED = f"""
SELECT k.place::integer, n.id, k.key FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS k (key, place)
CROSS JOIN LATERAL (
    SELECT p.id {_SCOPE} AND e.names > '' AND string_to_array(e.names, ' ') @> ARRAY[k.key] LIMIT %(most_named)s) AS n
"""  # noqa: S608 - constants of this file


@dataclass(frozen=True, kw_only=True, slots=True)
class PassageQuery:
    """What to look for.

    Args:
        owner: the agent whose passages are searched, with the shared ones; None searches all of the project.
        all_tags: a passage needs every tag; otherwise one is enough.
        since: the earliest time, included.
        until: the end, not included.
    """

    text: str
    owner: UUID | None = None
    tags: Sequence[str] = ()
    all_tags: bool = False
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundPassage:
    """A passage, how well it answers, and what that is made of."""

    passage: Passage
    score: float
    parts: Parts


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundPassages:
    """A page of what was found, best first. `degraded` says that meaning was not compared: the embedder is away."""

    passages: list[FoundPassage]
    total: int
    degraded: bool = False


class _Floors(NamedTuple):
    """From which cosine of meaning or of words a passage is found; meaning is None where only words decide."""

    meaning: float | None
    words: float


def list_passages(project: Project, query: PassageQuery) -> QuerySet[Passage]:
    """Return all passages in question, the newest first, whatever they say."""
    rows = Passage.objects.readable(project, owner=query.owner)
    if query.tags:
        rows = rows.filter(**{"tags__contains" if query.all_tags else "tags__overlap": list(query.tags)})
    if query.since is not None:
        rows = rows.filter(created_at__gte=query.since)
    if query.until is not None:
        rows = rows.filter(created_at__lt=query.until)
    return rows.order_by("-created_at", "-pk")


def search_passages(project: Project, query: PassageQuery, *, limit: int = 10, offset: int = 0) -> FoundPassages:
    """Return the passages that fit, best first. At most MAX_FOUND_PASSAGES are found, over all pages."""
    text = redact_text(query.text)
    model = get_searched_model()
    vector = _embed(text, model.pk)
    ((language,),) = _read("SELECT memory_language(%(text)s)", {"text": text})
    known = fit_floors(model.floors, text)
    asked = {
        "project": project.pk,
        "model": model.pk,
        "text": text,
        "vector": vector,
        "weight": weigh_meaning(language, known) if vector is not None else 0.0,
        "limit": MAX_FOUND_PASSAGES,
        "breadth": BREADTH,
        "matches": MATCHES,
        "most": FEW + 1,
        "owner": query.owner,
        "tags": list(query.tags),
        "all_tags": query.all_tags,
        "since": query.since,
        "until": query.until,
    }
    floors = _find_floors(language, known, by_meaning=vector is not None)
    ranked = _rank(asked, text, _write_search(model, asked), floors)
    page = ranked[offset : offset + limit]
    # Only this page is read; one that was deleted meanwhile is left out below.
    rows = Passage.objects.in_bulk([pk for pk, _ in page])
    passages = [FoundPassage(passage=rows[pk], score=parts.total, parts=parts) for pk, parts in page if pk in rows]
    return FoundPassages(passages=passages, total=len(ranked), degraded=vector is None)


def _write_search(model: EmbeddingModel, asked: dict[str, Any]) -> str:
    """Write the statement: with the index where there is one and more than a few passages are in question."""
    # Counted only where an index could serve, and no further than FEW + 1.
    by_index = asked["vector"] is not None and has_index(PassageEmbedding, model) and _read(_COUNT, asked)[0][0] > FEW
    return _SEARCH.replace("COMPARED", _FOUND.replace("DIMENSIONS", str(model.dimensions)) if by_index else _COMPARE)


def _find_floors(language: str, floors: Mapping[str, float] | None, *, by_meaning: bool) -> _Floors:
    """Return how similar a passage must be to be found.

    In a language that the model does not know, all texts are similar to it, so words and names decide.
    """
    if not by_meaning or (floors is not None and language not in floors):
        return _Floors(meaning=None, words=LISTED_SHARE * find_floor("lexical", language, floors))
    return _Floors(meaning=find_listing_floor(language, floors), words=LISTED_SHARE * FLOORS["hybrid"])


def _rank(asked: dict[str, Any], text: str, search: str, floors: _Floors) -> list[tuple[UUID, Parts]]:
    # A short word in capitals could be any other word.
    names = [name.key for name in find_names(text) if not name.is_word][:MAX_NAMES]
    places = _read(_NAMED, asked | {"keys": names, "most_named": MOST_LESSONS + 1}) if names else []
    namings = weigh(names, places)
    rows = _read(search, asked | {"named": choose_added(namings)})
    fitting = []
    for pk, meaning, words in rows:
        share = namings[pk].share if pk in namings else 0.0
        fits_by_meaning = floors.meaning is not None and meaning is not None and meaning >= floors.meaning
        if fits_by_meaning or max(words or 0.0, share) >= floors.words:
            fitting.append((pk, score_heuristic(meaning, words, meaning_weight=asked["weight"], named_share=share)))
    # By id among equals, so that pages do not overlap.
    return sorted(fitting, key=lambda pair: (-pair[1].total, pair[0]))[:MAX_FOUND_PASSAGES]


def _embed(text: str, model_id: str) -> str | None:
    try:
        _, vector = embed_task(text, model_id)
    except EmbedderError as error:
        log.info("passages_searched_by_words", reason=str(error))
        return None
    # Behind the length and two spare bytes, as PostgreSQL reads a halfvec.
    return str(HalfVector(np.frombuffer(vector.bytes[4:], ">f2").astype(np.float32)).to_text())


def _read(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
