"""How a proposed lesson relates to the lessons that exist: the same words, the same in other words, near, or new."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet, TextField, Value

from memory.embeddings.base import Vectors
from memory.heuristics.models import Heuristic, HeuristicRevision, hash_said, hash_words
from memory.heuristics.sameness import compare_heuristics
from memory.heuristics.text import Citation, HeuristicText
from memory.meaning.comparison import NEAR, Comparison, MeaningVerdict
from memory.projects.models import Project
from memory.redaction import redact
from memory.runs.models import Trajectory
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.models import Proposal
from reflection.reflectors.nearest import find_neighbours

# The cosines from which a lesson that says the same counts as a repetition, and from which one that seems to differ is
# shown beside another: small words may be read wrongly (reference: ERL c.1; after Hindsight and ACE).
SAME_SIMILARITY = 0.97
MERGE_SIMILARITY = 0.90
OTHER_WORDS = "other_words"
DOUBT_SIMILARITY = 0.75  # from which a lesson that may say the same is shown beside another
LONG_WORDS = 40  # of a lesson in which single words that differ say little

_Effect = Proposal.Effect
_Status = Heuristic.Status
_LIVE = (_Status.PROPOSED, _Status.APPROVED)
# What a reviewer refused does not come back in the same words with every run that shows it.
_REFUSED = (_Status.REJECTED, _Status.QUARANTINED)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedLesson:
    """A lesson that passed the checks, what they say to the reviewer, and its vectors if there are any."""

    lesson: ProposedLesson
    findings: tuple[dict[str, Any], ...] = ()
    vectors: tuple[str, Vectors] | None = None
    # By run, where the reflection read several; empty: all that the lesson cites is of its run.
    evidence: tuple[tuple[Trajectory, tuple[Citation, ...]], ...] = ()
    # Other runs from which the text has words.
    origins: tuple[Trajectory, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """How a lesson relates to the existing ones: new, the same as one, another wording of one, or close to one.

    `doubt` is what keeps it apart from the one it is close to; `bridged` are rows of the queue that say the same too.
    `words` are its own, where it only supports one that is served in others.
    """

    effect: str
    heuristic: Heuristic | None = None
    similarity: float | None = None
    doubt: str = ""
    bridged: tuple[Heuristic, ...] = ()
    words: str = ""

    @property
    def findings(self) -> tuple[dict[str, Any], ...]:
        """What a reviewer is told of the doubt, or of the words that are in no row of the queue."""
        if self.doubt:
            return ({"code": "may_repeat", "message": f"It may say what the similar lesson says, but {self.doubt}."},)
        if self.words:
            message = f"Another run taught the same in other words: “{redact(self.words).value}”"
            return ({"code": OTHER_WORDS, "message": message},)
        return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Near:
    """A lesson that is near in meaning, and how it compares."""

    heuristic: Heuristic
    similarity: float
    compared: Comparison


def find_match(project: Project, checked: CheckedLesson) -> Match:
    """Return how a lesson relates to the lessons of its project."""
    lesson = checked.lesson
    near = _find_near(project, checked)
    claim = _find_claimed(project, lesson, near)
    if claim is not None and claim.effect != _Effect.MERGE:
        return claim
    match = _find_same_words(project, lesson.text)
    if match is not None:
        effect = _Effect.SUPPORT if _is_same_place(match, lesson.text) else _Effect.MERGE
        return Match(effect=effect, heuristic=match.heuristic, similarity=1.0)
    return _match_meaning(lesson, near) or claim or Match(effect=_Effect.NEW)


def _find_near(project: Project, checked: CheckedLesson) -> list[_Near]:
    if checked.vectors is None:
        return []
    neighbours = find_neighbours(project, checked.vectors, at_least=NEAR)
    heuristics = Heuristic.objects.with_text().in_bulk([neighbour.heuristic_id for neighbour in neighbours])
    return [
        _Near(
            heuristic=heuristic,
            similarity=similarity,
            compared=_compare(heuristic, checked.lesson, similarity=similarity),
        )
        for neighbour in neighbours
        if (heuristic := heuristics.get(neighbour.heuristic_id)) is not None
        for similarity in [min(neighbour.similarity, 1.0)]
    ]


def _find_claimed(project: Project, lesson: ProposedLesson, near: Sequence[_Near]) -> Match | None:
    """Return what becomes of a lesson that repeats another one according to the model that wrote it.

    Its word does not outweigh another number, tool or "not", nor that the two speak of different things. In long texts,
    such words may be about something else: the two stand in one row of the queue, which says what differs.
    """
    if lesson.covers_existing is None:
        return None
    covered = Heuristic.objects.for_project(project).filter(pk=lesson.covers_existing, status__in=_LIVE).first()
    if covered is None:
        return None
    beside = next((row for row in near if row.heuristic == covered), None)
    compared = beside.compared if beside else _compare(covered, lesson)
    if compared.is_sure or (near and compared.verdict is MeaningVerdict.DIFFERENT):
        if beside is not None and _may_differ_in_words_alone(beside, lesson):
            row, similarity = covered.leader or covered, beside.similarity
            return Match(effect=_Effect.GROUP, heuristic=row, similarity=similarity, doubt=compared.reason)
        return Match(effect=_Effect.MERGE, heuristic=covered, doubt=compared.reason)
    words = "" if compared.verdict is MeaningVerdict.SAME else _write(lesson)
    return Match(effect=_Effect.SUPPORT, heuristic=covered, words=words)


def _match_meaning(lesson: ProposedLesson, near: Sequence[_Near]) -> Match | None:
    """Return how a lesson relates to those that are near in meaning, None where it says something else."""
    same = [(row.heuristic, row.similarity) for row in near if row.compared.verdict is MeaningVerdict.SAME]
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
        revision = heuristic.current_revision
        # What people have approved needs no second decision on other words for it.
        if heuristic.status == _Status.APPROVED and revision is not None and revision.served:
            return Match(effect=_Effect.SUPPORT, heuristic=heuristic, similarity=similarity, words=_write(lesson))
    for heuristic, similarity in same:
        return Match(effect=_Effect.MERGE, heuristic=heuristic, similarity=similarity)
    for row in near:
        # Shown beside the lesson it may repeat, so that the reviewer decides.
        is_doubtful = row.compared.verdict is MeaningVerdict.DOUBTFUL and row.similarity >= DOUBT_SIMILARITY
        if row.compared.is_opposite or is_doubtful or row.similarity >= MERGE_SIMILARITY:
            return Match(
                effect=_Effect.MERGE, heuristic=row.heuristic, similarity=row.similarity, doubt=row.compared.reason
            )
    return None


def _write(lesson: ProposedLesson) -> str:
    return f"{lesson.text.trigger}: {lesson.text.guideline}"


def _may_differ_in_words_alone(near: _Near, lesson: ProposedLesson) -> bool:
    """Tell whether a proposal and a lesson near to it are so long that a word decides little, and are no opposites."""
    revision = near.heuristic.current_revision
    if near.similarity < DOUBT_SIMILARITY or near.compared.is_opposite or near.heuristic.status != _Status.PROPOSED:
        return False
    texts = (_write(lesson), f"{revision.trigger}: {revision.guideline}" if revision is not None else "")
    return all(len(text.split()) >= LONG_WORDS for text in texts)


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
