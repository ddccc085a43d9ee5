"""Lessons as API clients bring them: under an id of their own, with data to keep, and from runs of the project.

Under an `external_id` a lesson can be sent again and again: a client's own file of lessons is brought up to date by
sending all of it. What the client sent last decides whether its words are new, so that a wording a reviewer improved is
not proposed away again.
"""

import json
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from memory.curation.evidence import cite, link_evidence
from memory.curation.proposals import (
    embed_unless_client,
    lock_proposals_of,
    propose_heuristic,
    redact_text,
    revise_heuristic,
)
from memory.errors import InvalidInput, NotServable, UnknownRun
from memory.heuristics.models import Heuristic
from memory.heuristics.provenance import Sources
from memory.heuristics.text import Authorship, Citation, HeuristicText
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.review.decisions import lock_subject
from memory.runs.models import Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class CitedRun:
    """A run that a client cites, named by its id or its external id, and where in it."""

    named: str
    citation: Citation


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientLesson:
    """A lesson as a client sends it; None means that a member was not sent."""

    text: HeuristicText
    confidence: float | None = None
    external_id: str = ""
    metadata: dict[str, Any] | None = None
    evidence: tuple[CitedRun, ...] = ()


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
    origins = tuple(run.pk for run in runs)
    kept = redact({"external_id": lesson.external_id, "metadata": lesson.metadata}).value
    if kept["external_id"] != lesson.external_id:  # two such ids may be stored as the same text
        fault = "Leave secrets and personal data, such as an e-mail address, out of the id."
        raise InvalidInput({"/external_id": [fault]})
    earlier = None
    if lesson.external_id:
        # Two requests with the same new id would both find nothing. This lets one of them wait.
        lock_proposals_of(project.pk, client)
        same = Heuristic.objects.filter(project=project, client=client, external_id=kept["external_id"])
        earlier = same.select_for_update().first()
    if earlier is None:
        origin = Authorship(confidence=lesson.confidence, client=client)
        heuristic = propose_heuristic(project, text=lesson.text, by=by, origin=origin, runs=origins)
    else:
        heuristic = _bring_words(earlier, lesson.text, by=by, sources=Sources(runs=origins, client=client))
    _keep(heuristic, lesson, kept)
    if lesson.evidence:
        _link_runs(heuristic, lesson.evidence, runs)
    embed_unless_client(heuristic, by=by)
    return Brought(heuristic=heuristic, created=earlier is None)


def _bring_words(known: Heuristic, text: HeuristicText, *, by: Actor, sources: Sources) -> Heuristic:
    """Propose the words if they are others than those this client sent last."""
    # Compared with what the client sent, not only with what is current: a reviewer may have improved it since.
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
    # An update that changes nothing would still wait for locks and write a row.
    changes = {name: value for name, value in changes.items() if getattr(heuristic, name) != value}
    if changes:
        Heuristic.objects.filter(pk=heuristic.pk).update(**changes)


@transaction.atomic
def cite_runs(heuristic: Heuristic, evidence: Sequence[CitedRun], *, project: Project) -> Heuristic:
    """Cite more runs as evidence of a lesson. They count once a reviewer approves it or confirms the evidence.

    Raises:
        NotServable: it is neither proposed nor approved.
        UnknownRun, InvalidInput: as for `bring_lesson`; nothing is cited then.
    """
    runs = _find_runs(project, evidence)
    heuristic = lock_subject(heuristic)
    if heuristic.status not in (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED):
        raise NotServable(
            f"This lesson is {heuristic.status}. Only one that is proposed or approved takes more runs; if this one "
            "was merged, superseded_by_id names the one that stays."
        )
    return _link_runs(heuristic, evidence, runs)


def _link_runs(heuristic: Heuristic, evidence: Sequence[CitedRun], runs: Sequence[Trajectory]) -> Heuristic:
    pieces = [cite(heuristic, run, cited.citation) for run, cited in zip(runs, evidence, strict=True)]
    there = heuristic.evidence.filter(trajectory__in={run.pk for run in runs})
    quotes = {(stored.trajectory_id, stored.first_step, stored.last_step): stored.quote for stored in there}
    for number, piece in enumerate(pieces):
        span = (piece.trajectory_id, piece.first_step, piece.last_step)
        if piece.quote not in ("", quotes.setdefault(span, piece.quote)):
            fault = "These steps of the run are cited already, without this quote. Name other steps or leave it out."
            raise InvalidInput({f"/evidence/{number}/quote": [fault]})
    return link_evidence(heuristic, pieces)


def _find_runs(project: Project, evidence: Sequence[CitedRun]) -> list[Trajectory]:
    """Return the run of each piece of evidence, after a check that it has the steps and the words."""
    runs = _find_named(project, {cited.named for cited in evidence}) if evidence else {}
    for number, cited in enumerate(evidence):
        pointer, citation = f"/evidence/{number}", cited.citation
        if cited.named not in runs:
            fault = f"No run {cited.named!r} exists in this project. Record it first."
            raise UnknownRun(fault, pointer=f"{pointer}/trajectory_id")
        steps = runs[cited.named].steps
        if citation.last_step is not None and citation.last_step > len(steps):
            raise InvalidInput({f"{pointer}/last_step": [f"The run has {len(steps)} steps."]})
        first, last = citation.first_step or 1, citation.last_step or len(steps)
        if not _says(steps[first - 1 : last], redact(citation.quote).value):
            raise InvalidInput(
                {f"{pointer}/quote": ["The steps you name do not have these words. Quote the run itself."]}
            )
    return [runs[cited.named] for cited in evidence]


def _find_named(project: Project, names: Set[str]) -> dict[str, Trajectory]:
    """Return runs by the name they were called by: an id or, where there is no such run, an external id."""
    ids = {}
    for name in names:
        with suppress(ValueError):
            ids[UUID(name)] = name
    runs = Trajectory.objects.for_project(project)
    by_external_id = {run.external_id: run for run in runs.filter(external_id__in=names - {""})}
    # An id wins over an equal external id.
    return by_external_id | {ids[id]: run for id, run in runs.in_bulk(ids).items()}


def _says(steps: Sequence[dict[str, Any]], quote: str) -> bool:
    """Tell whether steps have these words in this order, whatever spaces and lines are between them."""
    texts = []
    for step in steps:
        action = step.get("action") or {}
        arguments = json.dumps(action.get("arguments", {}), ensure_ascii=False)
        texts += [step.get("thought", ""), action.get("name", ""), arguments, step.get("observation", "")]
        texts += [step.get("error", "")]
    return " ".join(quote.split()) in " ".join(" ".join(texts).split())
