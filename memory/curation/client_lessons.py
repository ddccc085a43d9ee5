"""Lessons as API clients bring them: under an id of their own, with data to keep, and from runs of the project.

Under an `external_id` a lesson can be sent again and again: a client's own file of lessons is brought up to date by
sending all of it. What the client sent last decides whether its words are new, so that a wording a reviewer improved is
not proposed away again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from memory.curation.proposal_groups import count_support
from memory.curation.proposals import (
    embed_unless_client,
    lock_proposals_of,
    propose_heuristic,
    redact_text,
    revise_heuristic,
)
from memory.errors import InvalidInput, UnknownRun
from memory.heuristics.models import Evidence, Heuristic
from memory.heuristics.provenance import Sources
from memory.heuristics.text import Citation, HeuristicText, Origin
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.runs.models import Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientLesson:
    """A lesson as a client sends it. `evidence` names runs by their ids; None means that a member was not sent."""

    text: HeuristicText
    confidence: float | None = None
    external_id: str = ""
    metadata: dict[str, Any] | None = None
    evidence: tuple[tuple[UUID, Citation], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Brought:
    """A lesson, and whether this call made it."""

    heuristic: Heuristic
    created: bool


@transaction.atomic
def bring_lesson(project: Project, lesson: ClientLesson, *, by: Actor, client: str) -> Brought:
    """Propose a lesson, or bring up to date the one that this client sent under the same `external_id`.

    Known words change nothing. Other words are a new revision, which waits for review while the approved one stays
    served. `metadata` and `confidence` replace what was there; evidence is added.

    Raises:
        UnknownRun: a piece of evidence names no run of the project.
        InvalidInput: it names steps, or quotes words, that the run does not have; or the id holds what is not stored.
        TooManyProposals: there is something to review, and as many lessons of this client wait as may.
    """
    runs = _find_runs(project, lesson.evidence)
    kept = redact({"external_id": lesson.external_id, "metadata": lesson.metadata}).value
    if kept["external_id"] != lesson.external_id:  # two such ids may be stored as the same text
        fault = "Leave secrets and personal data, such as an e-mail address, out of the id."
        raise InvalidInput({"/external_id": [fault]})
    known = None
    if lesson.external_id:
        lock_proposals_of(project.pk, client)
        same = Heuristic.objects.filter(project=project, client=client, external_id=kept["external_id"])
        known = same.select_for_update().first()
    if known is None:
        origin = Origin(confidence=lesson.confidence, client=client)
        heuristic = propose_heuristic(project, text=lesson.text, by=by, origin=origin, runs=tuple(runs))
    else:
        heuristic = _bring_words(known, lesson.text, by=by, sources=Sources(runs=tuple(runs), client=client))
    _keep(heuristic, lesson, kept)
    _add_runs(heuristic, lesson.evidence, runs)
    embed_unless_client(heuristic, by=by)
    return Brought(heuristic=heuristic, created=known is None)


def _bring_words(known: Heuristic, text: HeuristicText, *, by: Actor, sources: Sources) -> Heuristic:
    """Propose the words if they are others than those this client sent last."""
    sent_last = known.revisions.filter(created_by=by.label).order_by("-number").first()
    current = known.current_revision
    assert current is not None, "every heuristic has a revision"
    words = redact_text(text)
    if words in (current.as_text(), sent_last.as_text() if sent_last else None):
        return known
    return revise_heuristic(known, text=text, by=by, sources=sources)


def _keep(heuristic: Heuristic, lesson: ClientLesson, kept: dict[str, Any]) -> None:
    changes: dict[str, Any] = {"external_id": kept["external_id"]} if lesson.external_id else {}
    if lesson.metadata is not None:
        changes["metadata"] = kept["metadata"]
    if lesson.confidence is not None:
        changes["confidence"] = lesson.confidence
    changes = {name: value for name, value in changes.items() if getattr(heuristic, name) != value}
    if changes:
        Heuristic.objects.filter(pk=heuristic.pk).update(**changes)


def _find_runs(project: Project, evidence: Sequence[tuple[UUID, Citation]]) -> dict[UUID, Trajectory]:
    """Return the runs that evidence names, by id, after a check that each has the steps and the words."""
    runs = Trajectory.objects.for_project(project).in_bulk({id for id, _ in evidence}) if evidence else {}
    for number, (id, citation) in enumerate(evidence):
        place = f"/evidence/{number}"
        if id not in runs:
            raise UnknownRun(f"No run {id} exists in this project. Record it first.", pointer=f"{place}/trajectory_id")
        steps = runs[id].steps
        if citation.last_step is not None and citation.last_step > len(steps):
            raise InvalidInput({f"{place}/last_step": [f"The run has {len(steps)} steps."]})
        first, last = citation.first_step or 1, citation.last_step or len(steps)
        if not _says(steps[first - 1 : last], redact(citation.quote).value):
            raise InvalidInput(
                {f"{place}/quote": ["The steps you name do not have these words. Quote the run itself."]}
            )
    return runs


def _says(steps: Sequence[dict[str, Any]], quote: str) -> bool:
    """Tell whether steps have these words in this order, whatever spaces and lines are between them."""
    said = []
    for step in steps:
        action = step.get("action") or {}
        arguments = json.dumps(action.get("arguments", {}), ensure_ascii=False)
        said += [step.get("thought", ""), action.get("name", ""), arguments, step.get("observation", "")]
        said += [step.get("error", "")]
    return " ".join(quote.split()) in " ".join(" ".join(said).split())


def _add_runs(heuristic: Heuristic, evidence: Sequence[tuple[UUID, Citation]], runs: dict[UUID, Trajectory]) -> None:
    if not evidence:
        return
    rows = [
        Evidence(
            project_id=heuristic.project_id,
            heuristic=heuristic,
            trajectory=runs[id],
            first_step=citation.first_step,
            last_step=citation.last_step,
            quote=redact(citation.quote).value,
        )
        for id, citation in evidence
    ]
    Evidence.objects.bulk_create(rows, ignore_conflicts=True)
    count_support(heuristic)
