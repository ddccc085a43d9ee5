"""The answers that carried certain words, whichever lesson or mistake card had them then (reliability D3)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from memory.heuristics.models import HeuristicRevision
from memory.projects.models import Project
from memory.retrieval.context import get_label
from memory.retrieval.given_words import find_given_wordings
from memory.retrieval.models import Retrieval

BATCH = 500  # answers that are looked into at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """An answer that gave an agent words that are now quarantined, and the lessons and cards that had them then."""

    retrieval_id: UUID
    answered_at: datetime
    request_id: str
    client: str
    agent: str
    heuristic_ids: tuple[UUID, ...]
    card_ids: tuple[UUID, ...] = ()


def find_carried(project: Project, wording_ids: Collection[UUID]) -> tuple[Carried, ...]:
    """Return the answers whose block contained any of these wordings, oldest first."""
    wordings = HeuristicRevision.objects.filter(pk__in=wording_ids).order_by()
    lessons = set(wordings.of_lessons().values_list("heuristic_id", flat=True))
    cards = wordings.of_mistakes().exclude(approved_sha256="")
    card_ids = set(cards.values_list("heuristic_id", flat=True))
    contained = Q(injected_ids__overlap=list(lessons)) if lessons else Q(pk__in=[])
    for card_id in card_ids:
        contained |= Q(record_text__contains=f"[{get_label(card_id, letter='M')}]")
    candidates = Retrieval.objects.filter(contained, project=project).order_by("created_at", "pk")
    if not lessons and not card_ids:
        return ()
    carried: list[Carried] = []
    # Only the ids at once: the texts of many answers would not fit into memory.
    answer_ids = list(candidates.values_list("pk", flat=True))
    for first in range(0, len(answer_ids), BATCH):
        answers = list(candidates.filter(pk__in=answer_ids[first : first + BATCH]))
        given = find_given_wordings(answers)
        for answer in answers:
            subjects = {
                wording.subject_id for wording in given[answer.pk] if wording.injected and wording.id in wording_ids
            }
            if subjects:
                carried.append(_describe(answer, subjects, card_ids))
    return tuple(carried)


def _describe(answer: Retrieval, subjects: set[UUID], card_ids: set[UUID]) -> Carried:
    in_order = dict.fromkeys([*answer.injected_ids, *sorted(subjects)])
    return Carried(
        retrieval_id=answer.pk,
        answered_at=answer.created_at,
        request_id=answer.request_id,
        client=answer.client,
        agent=answer.agent,
        heuristic_ids=tuple(id for id in in_order if id in subjects and id not in card_ids),
        card_ids=tuple(id for id in in_order if id in subjects and id in card_ids),
    )
