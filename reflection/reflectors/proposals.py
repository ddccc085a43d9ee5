"""Turn the lessons of one reflection into new proposals, support for what exists, or proposals to merge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.db import connection
from django.db.models import F, Q, QuerySet, TextField, Value
from pgvector import HalfVector

from memory.curation.evidence import add_evidence
from memory.curation.proposal_groups import join_group
from memory.curation.proposals import has_room, propose_heuristic
from memory.embeddings.base import Vectors
from memory.heuristics.models import Heuristic, HeuristicRevision, hash_said, hash_words
from memory.heuristics.sameness import compare_heuristics
from memory.heuristics.text import Authorship, Citation, HeuristicText
from memory.index.heuristic_vectors import store_lesson_vector
from memory.meaning.comparison import NEAR, Comparison, MeaningVerdict
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.runs.models import Trajectory
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.nearest import find_neighbours

# The cosines from which a lesson that says the same counts as a repetition, and from which one is worth comparing
# (reference: ERL c.1; after Hindsight and ACE).
SAME_SIMILARITY = 0.97
MERGE_SIMILARITY = 0.90
DOUBT_SIMILARITY = 0.75  # from which a lesson that may say the same is shown beside another

_Effect = Proposal.Effect
_Status = Heuristic.Status
_LIVE = (_Status.PROPOSED, _Status.APPROVED)
# What a reviewer refused does not come back in the same words with every run that shows it.
_REFUSED = (_Status.REJECTED, _Status.QUARANTINED)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedLesson:
    """A lesson that passed the checks, what they say to the reviewer, and its vectors if there are any."""

    lesson: ProposedLesson
    findings: tuple[dict[str, str], ...] = ()
    vectors: tuple[str, Vectors] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """How a lesson relates to the existing ones: new, the same as one, another wording of one, or close to one.

    `doubt` is what keeps it apart from the one it is close to; `bridged` are rows of the queue that say the same too.
    """

    effect: str
    heuristic: Heuristic | None = None
    similarity: float | None = None
    doubt: str = ""
    bridged: tuple[Heuristic, ...] = ()

    @property
    def findings(self) -> tuple[dict[str, str], ...]:
        """What a reviewer is told of the doubt."""
        if not self.doubt:
            return ()
        return ({"code": "may_repeat", "message": f"It may say what the similar lesson says, but {self.doubt}."},)


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
            runs=[trajectory.pk],
        )
        _store_vector(heuristic, checked)
        if match.effect == _Effect.GROUP and match.heuristic is not None:
            # The leader may have been decided on since it was read; then the lesson stands alone.
            if join_group(heuristic, leader=match.heuristic):
                _bridge(heuristic, match.bridged)
            else:
                match = replace(match, effect=_Effect.MERGE)
    add_evidence(heuristic, trajectory, citations=lesson.citations or (Citation(),))
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


def find_match(project: Project, checked: CheckedLesson) -> Match:
    """Return how a lesson relates to the lessons of its project."""
    lesson = checked.lesson
    if lesson.covers_existing is not None:
        covered = Heuristic.objects.for_project(project).filter(pk=lesson.covers_existing, status__in=_LIVE).first()
        # The model names what its lesson repeats; its word does not outweigh another number, tool or "not".
        if covered is not None and not _compare(covered, lesson).is_sure:
            return Match(effect=_Effect.SUPPORT, heuristic=covered)
    match = _find_same_words(project, lesson.text)
    if match is not None:
        effect = _Effect.SUPPORT if _is_same_place(match, lesson.text) else _Effect.MERGE
        return Match(effect=effect, heuristic=match.heuristic, similarity=1.0)
    if checked.vectors is None:
        return Match(effect=_Effect.NEW)
    neighbours = find_neighbours(project, checked.vectors, at_least=NEAR)
    heuristics = Heuristic.objects.with_text().in_bulk([neighbour.heuristic_id for neighbour in neighbours])
    near = [
        (
            heuristic,
            min(candidate.similarity, 1.0),
            _compare(heuristic, lesson, similarity=min(candidate.similarity, 1.0)),
        )
        for candidate in neighbours
        if (heuristic := heuristics.get(candidate.heuristic_id)) is not None
    ]
    same = [
        (heuristic, similarity) for heuristic, similarity, compared in near if compared.verdict is MeaningVerdict.SAME
    ]
    for heuristic, similarity in same:
        # So close that it is no new wording worth reading: it only counts as support.
        if similarity >= SAME_SIMILARITY:
            return Match(effect=_Effect.SUPPORT, heuristic=heuristic, similarity=similarity)
    leaders: dict[UUID, tuple[Heuristic, float]] = {}
    for heuristic, similarity in same:
        if (leader := _find_leader(heuristic, lesson)) is not None:
            leaders.setdefault(leader.pk, (leader, similarity))
    if leaders:
        (first, similarity), *others = leaders.values()
        bridged = tuple(other for other, _ in others if not _compare_rows(first, other).is_sure)
        return Match(effect=_Effect.GROUP, heuristic=first, similarity=similarity, bridged=bridged)
    for heuristic, similarity in same:
        return Match(effect=_Effect.MERGE, heuristic=heuristic, similarity=similarity)
    for heuristic, similarity, compared in near:
        # Shown beside the lesson it may repeat, so that the reviewer decides.
        if compared.is_opposite or (compared.verdict is MeaningVerdict.DOUBTFUL and similarity >= DOUBT_SIMILARITY):
            return Match(effect=_Effect.MERGE, heuristic=heuristic, similarity=similarity, doubt=compared.reason)
    return Match(effect=_Effect.NEW)


def _compare(heuristic: Heuristic, lesson: ProposedLesson, *, similarity: float | None = None) -> Comparison:
    revision = heuristic.current_revision
    if revision is None:
        return Comparison(MeaningVerdict.DIFFERENT)
    return compare_heuristics(revision.as_text(), lesson.text, similarity=similarity)


def _compare_rows(one: Heuristic, other: Heuristic) -> Comparison:
    texts = [row.current_revision for row in (one, other) if row.current_revision is not None]
    if len(texts) < 2:
        return Comparison(MeaningVerdict.DIFFERENT, is_sure=True)
    return compare_heuristics(texts[0].as_text(), texts[1].as_text())


def _find_leader(heuristic: Heuristic, lesson: ProposedLesson) -> Heuristic | None:
    """Return the proposal that a lesson may stand behind because one of its wordings says the same.

    A chain of wordings may lead to other advice: nothing joins a group whose first wording says something else.
    """
    leader = heuristic.leader or heuristic
    if leader.status != _Status.PROPOSED or (leader is not heuristic and _compare(leader, lesson).is_sure):
        return None
    return leader


def _find_same_words(project: Project, text: HeuristicText) -> HeuristicRevision | None:
    """Return a wording that is the same apart from case, punctuation and spaces, a live one before a refused one.

    A refused one counts only for the task family it was refused in.
    """
    words = redact(f"{text.trigger} {text.guideline}").value
    newest_or_served = Q(heuristic__current_revision=F("pk")) | Q(served=True)
    same: QuerySet[HeuristicRevision] = (
        HeuristicRevision.objects.of_lessons()
        .for_project(project)
        .filter(newest_or_served, heuristic__status__in=(*_LIVE, *_REFUSED))
        .alias(said=hash_said())
        .filter(said=hash_words(Value(words, output_field=TextField())))
        .select_related("heuristic")
        .order_by("created_at", "pk")
    )
    # The hash leaves out signs: `>` and `>=` have the same words.
    matches = [
        revision
        for revision in same
        if compare_heuristics(revision.as_text(), text).verdict is not MeaningVerdict.DIFFERENT
    ]
    in_place = [revision for revision in matches if _is_same_place(revision, text)]
    live = [revision for revision in matches if revision.heuristic.status in _LIVE]
    ranked = [*(row for row in in_place if row in live), *in_place, *live]
    return ranked[0] if ranked else None


def _is_same_place(revision: HeuristicRevision, text: HeuristicText) -> bool:
    return revision.scope == HeuristicRevision.Scope.PROJECT or revision.task_id == text.task_id


def lock_proposals(project_id: object) -> None:
    """Hold the lock on proposing lessons in a project until the transaction ends."""
    with connection.cursor() as cursor:
        # An advisory lock: there is no row yet that two proposals of the same lesson could fight over.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"reflection.proposals:{project_id}"])
