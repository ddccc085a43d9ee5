"""Turn the lessons of one reflection into new proposals, support for what exists, or proposals to merge."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.db import connection
from pgvector import HalfVector

from memory.curation.evidence import add_evidence
from memory.curation.proposal_groups import join_group
from memory.curation.proposals import has_room, propose_heuristic
from memory.heuristics.models import Heuristic
from memory.heuristics.text import Authorship, Citation
from memory.index.heuristic_vectors import store_lesson_vector
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from reflection.reflectors.matching import CheckedLesson, find_match
from reflection.reflectors.models import Proposal, Reflection

_Effect = Proposal.Effect


def store_lessons(
    reflection: Reflection, trajectory: Trajectory, *, lessons: Sequence[CheckedLesson]
) -> list[Proposal]:
    """Write the lessons of a reflection as proposals, in the caller's transaction, and return them in order.

    Only one reflection of a project at a time does this, so that two cannot propose the same lesson. A new lesson is
    left out where as many of the client's lessons wait for a reviewer as are allowed (reliability D5).
    """
    if not lessons:
        return []
    # Held until the commit: the next reflection sees these lessons and matches against them.
    lock_proposals(reflection.project_id)
    stored = [
        _store_lesson(reflection, trajectory, ordinal=ordinal, checked=checked)
        for ordinal, checked in enumerate(lessons, 1)
    ]
    return [proposal for proposal in stored if proposal is not None]


def _store_lesson(
    reflection: Reflection, trajectory: Trajectory, *, ordinal: int, checked: CheckedLesson
) -> Proposal | None:
    lesson = checked.lesson
    match = find_match(reflection.project, checked)
    if match.effect == _Effect.SUPPORT and match.heuristic is not None:
        heuristic = match.heuristic
    elif not has_room(reflection.project_id, trajectory.client):
        return None
    else:
        heuristic = propose_heuristic(
            reflection.project,
            text=lesson.text,
            by=Actor(label=f"reflector:{reflection.reflector}"),
            origin=Authorship(
                reflector=reflection.reflector,
                reflector_version=reflection.reflector_version,
                model=reflection.model,
                prompt_version=reflection.prompt_version,
                confidence=lesson.confidence,
                client=trajectory.client,
            ),
            runs=[trajectory.pk, *reflection.shown_runs, *(run.pk for run in checked.origins)],
        )
        _store_vector(heuristic, checked)
        if match.effect == _Effect.GROUP and match.heuristic is not None:
            # The leader may have been decided on since it was read; then the lesson stands alone.
            if join_group(heuristic, leader=match.heuristic):
                _bridge(heuristic, match.bridged)
            else:
                match = replace(match, effect=_Effect.MERGE)
    for run, citations in checked.evidence or ((trajectory, lesson.citations or (Citation(),)),):
        add_evidence(heuristic, run, citations=citations)
    return Proposal.objects.create(
        project_id=reflection.project_id,
        reflection=reflection,
        ordinal=ordinal,
        heuristic=heuristic,
        near=match.heuristic if match.effect in (_Effect.MERGE, _Effect.GROUP) else None,
        effect=match.effect,
        similarity=match.similarity,
        pattern=lesson.pattern,
        findings=[*checked.findings, *match.findings],
    )


def _bridge(heuristic: Heuristic, rows: Iterable[Heuristic]) -> None:
    """Put rows of the queue that say what a new wording says behind the row that it joined."""
    for row in rows:
        joined = Heuristic.objects.select_related("leader").get(pk=heuristic.pk)
        join_group(row, leader=joined.leader or joined)


def _store_vector(heuristic: Heuristic, checked: CheckedLesson) -> None:
    """Store the vector with the lesson, for the reflection that waits for the lock; not that of words that changed."""
    revision, text = heuristic.current_revision, checked.lesson.text
    if checked.vectors is None or revision is None:
        return
    # Redaction may have changed the words, and the vector is of the words before.
    if (revision.trigger, revision.guideline, revision.avoid) == (text.trigger, text.guideline, text.avoid):
        model_id, vectors = checked.vectors
        store_lesson_vector(revision, model_id=model_id, vector=HalfVector(vectors[0].tolist()).to_text())


def lock_proposals(project_id: object) -> None:
    """Hold the lock on proposing lessons in a project until the transaction ends."""
    with connection.cursor() as cursor:
        # An advisory lock: there is no row yet that two proposals of the same lesson could fight over.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"reflection.proposals:{project_id}"])
