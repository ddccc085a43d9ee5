"""Which wordings stood in an answer, as lessons, rules or mistake cards, and whether a quarantine order covers them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from memory.heuristics.models import HeuristicRevision
from memory.heuristics.provenance import find_covering_order
from memory.retrieval.models import Retrieval
from memory.retrieval.safe_text import clean

_CARD_LABEL = re.compile(r"^- \[M-([0-9a-f]{8})\]", re.MULTILINE)  # see get_label

_CARDS = """
SELECT right(replace(heuristic_id::text, '-', ''), 8), id, heuristic_id, lineage, ARRAY[avoid, guideline, rationale]
FROM memory_heuristicrevision
WHERE project_id = %s AND kind = 'mistake' AND right(replace(heuristic_id::text, '-', ''), 8) = ANY (%s)
    AND approved_sha256 <> ''
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenWording:
    """A wording in an answer. `injected` says that it stood in the block; otherwise it was only listed."""

    id: UUID
    subject_id: UUID
    lineage: list[UUID]
    injected: bool


class _CardWording(NamedTuple):
    id: UUID
    card_id: UUID
    lineage: list[UUID]
    texts: list[str]


def find_given_wordings(retrievals: Sequence[Retrieval]) -> dict[UUID, list[GivenWording]]:
    """Return the wordings of lessons and mistake cards in each answer, as far as they still exist. Two queries at most.

    The record of earlier runs keeps words without their revision: a wording counts if the record says its words.
    """
    wanted = {id for retrieval in retrievals for id in (*retrieval.heuristic_ids, *retrieval.injected_ids)}
    revisions: dict[UUID, list[HeuristicRevision]] = {}
    for revision in HeuristicRevision.objects.filter(heuristic__in=wanted) if wanted else ():
        revisions.setdefault(revision.heuristic_id, []).append(revision)
    cards = _read_cards(retrievals)
    return {
        retrieval.pk: [*_find_lessons(retrieval, revisions), *_find_cards(retrieval, cards)] for retrieval in retrievals
    }


def find_order_over(retrieval: Retrieval) -> UUID | None:
    """Return an order in force that covers words of this answer, if there is one."""
    given = find_given_wordings([retrieval])[retrieval.pk]
    return find_covering_order(retrieval.project_id, [wording.lineage for wording in given]) if given else None


def _find_lessons(retrieval: Retrieval, revisions: dict[UUID, list[HeuristicRevision]]) -> Iterable[GivenWording]:
    listed = {UUID(item["heuristic"]): item for item in retrieval.items}
    # Rules of the record are injected without being listed; each lesson counts once.
    for heuristic_id in dict.fromkeys([*listed, *retrieval.heuristic_ids, *retrieval.injected_ids]):
        wordings = revisions.get(heuristic_id, [])
        item = listed.get(heuristic_id)
        if item is not None:
            given = [wording for wording in wordings if wording.number == item["revision"]]
        else:  # a rule of the record
            given = [wording for wording in wordings if clean(wording.guideline) in retrieval.record_text] or wordings
        injected = heuristic_id in retrieval.injected_ids
        for wording in given:
            yield GivenWording(id=wording.pk, subject_id=heuristic_id, lineage=wording.lineage, injected=injected)


def _read_cards(retrievals: Sequence[Retrieval]) -> dict[tuple[UUID, str], list[_CardWording]]:
    labels: dict[UUID, set[str]] = {}
    for retrieval in retrievals:
        labels.setdefault(retrieval.project_id, set()).update(_CARD_LABEL.findall(retrieval.record_text))
    cards: dict[tuple[UUID, str], list[_CardWording]] = {}
    for project_id, wanted in labels.items():
        if not wanted:
            continue
        with connection.cursor() as cursor:
            cursor.execute(_CARDS, [project_id, sorted(wanted)])
            for label, *columns in cursor.fetchall():
                cards.setdefault((project_id, label), []).append(_CardWording(*columns))
    return cards


def _find_cards(
    retrieval: Retrieval, cards: Mapping[tuple[UUID, str], Sequence[_CardWording]]
) -> Iterable[GivenWording]:
    for label in _CARD_LABEL.findall(retrieval.record_text):
        for card in cards.get((retrieval.project_id, label), []):
            texts = [clean(text).rstrip(".") for text in card.texts]
            if any(text and text in retrieval.record_text for text in texts):
                yield GivenWording(id=card.id, subject_id=card.card_id, lineage=card.lineage, injected=True)
