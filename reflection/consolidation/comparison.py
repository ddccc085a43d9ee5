"""Find lessons that say the same, the same elsewhere, or the opposite: by similarity, without a language model."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from memory.embeddings.base import Vectors
from memory.heuristics.models import HeuristicRevision
from memory.heuristics.sameness import compare_heuristics
from memory.heuristics.text import HeuristicText
from memory.meaning.comparison import Comparison, MeaningVerdict, compare_texts
from reflection.consolidation.drafts import Advice, Author
from reflection.consolidation.models import Suggestion
from reflection.consolidation.similarity import TRIED, group_similar, stack
from reflection.consolidation.sources import Lesson
from reflection.reflectors.matching import SAME_SIMILARITY
from reflection.reflectors.nearest import embed_texts

AUTHOR = Author(method="rules", version="1")
OPPOSED_SIMILARITY = 0.85
SAID_AGAIN_SIMILARITY = 0.75  # from which two lessons are compared
_PROJECT = HeuristicRevision.Scope.PROJECT


def compare_lessons(lessons: Sequence[Lesson]) -> list[Advice]:
    """Suggest what to merge, what to apply to the whole project, and which lessons contradict each other.

    `lessons` are ordered: of two that say the same, the first stays.
    """
    compared = [lesson for lesson in lessons if lesson.vector is not None]
    if len(compared) < 2:
        return []
    return [*_find_repetitions(compared), *_find_contradictions(compared)]


def suggest_merge(
    lesson: Lesson,
    into: Lesson,
    *,
    similarity: float | None,
    author: Author = AUTHOR,
    reason: str = "",
    text: HeuristicText | None = None,
) -> Advice:
    """Return the suggestion to let one lesson be superseded by another, which keeps its words or takes `text`."""
    how = f"{round(100 * similarity)}% similar in meaning" if similarity is not None else "the same"
    return Advice(
        kind=Suggestion.Kind.MERGE,
        heuristic_id=lesson.id,
        content_sha256=lesson.revision.content_sha256,
        other_id=into.id,
        other_sha256=into.revision.content_sha256,
        text=text,
        reason=reason
        or f"The two lessons are {how}. The one that stays was seen in {_runs(into)}, this one in {_runs(lesson)}.",
        similarity=similarity,
        author=author,
        tokens_saved=lesson.tokens,
    )


def suggest_generalisation(
    lesson: Lesson,
    families: Iterable[str],
    *,
    author: Author = AUTHOR,
    reason: str = "",
    text: HeuristicText | None = None,
) -> Advice:
    """Return the suggestion to apply a lesson to the whole project."""
    names = sorted(families)
    wider = replace(text or lesson.revision.as_text(), scope="project", task_id="")
    # A condition about one kind of task would keep the wider lesson in its old family.
    if text is None and re.match(r"When the task is of the kind |When the same task", wider.trigger):
        wider = replace(wider, trigger="When starting a task of this project")
    return Advice(
        kind=Suggestion.Kind.GENERALISE,
        heuristic_id=lesson.id,
        content_sha256=lesson.revision.content_sha256,
        text=wider,
        reason=reason or f"It was learned in {len(names)} task families: {', '.join(names[:5])}.",
        author=author,
    )


def _find_repetitions(lessons: Sequence[Lesson]) -> Iterable[Advice]:
    groups = group_similar(
        lessons,
        stack(lesson.vector for lesson in lessons),
        at_least=SAID_AGAIN_SIMILARITY,
        # Near vectors alone are not enough: "do" and "do not" are close to each other.
        may_join=lambda leader, lesson: compare(leader, lesson, anywhere=True).verdict is MeaningVerdict.SAME,
    )
    for group in groups:
        leader = lessons[group[0][0]]
        families = {leader.place}
        for index, similarity in group[1:]:
            lesson = lessons[index]
            if lesson.place == leader.place or (not leader.place and similarity >= SAME_SIMILARITY):
                yield suggest_merge(lesson, leader, similarity=round(similarity, 4))
            # The same words in another family speak for a wider lesson, not for a merge.
            elif similarity >= SAME_SIMILARITY:
                families.add(lesson.place)
        # A lesson that holds for the whole project already covers the families.
        if len(families) > 1 and "" not in families and leader.revision.scope != _PROJECT:
            yield suggest_generalisation(leader, families)


def _find_contradictions(lessons: Sequence[Lesson]) -> Iterable[Advice]:
    """Find pairs of lessons of one place of which only one can hold, such as to do what the other says to avoid."""
    vectors = stack(lesson.vector for lesson in lessons)
    opposed: dict[tuple[int, int], str] = {}
    for column, row in _find_near(vectors):
        first, other = lessons[column], lessons[row]
        if (not first.place or not other.place or first.place == other.place) and (
            comparison := compare(first, other, anywhere=True)
        ).is_opposite:
            opposed[column, row] = f"The two lessons are nearly the same, but {comparison.reason}"
    forbidding = [index for index, lesson in enumerate(lessons) if lesson.revision.avoid]
    # Advice and what to avoid are compared crosswise, which needs a vector for each of the two texts.
    embedded = embed_texts(
        [(lesson.revision.guideline,) for lesson in lessons]
        + [(lessons[index].revision.avoid,) for index in forbidding]
    )
    if forbidding and embedded is not None:
        said_vectors, forbidden = embedded[1][: len(lessons)], embedded[1][len(lessons) :]
        for row, column in np.argwhere(forbidden @ said_vectors.T >= OPPOSED_SIMILARITY).tolist():
            first, other = lessons[forbidding[row]], lessons[column]
            if other.id == first.id or (first.place and other.place != first.place):
                continue
            # "Do not open it" under avoid is not what "do not open it" as advice forbids.
            if compare_texts(first.revision.avoid, other.revision.guideline).verdict is MeaningVerdict.SAME:
                opposed.setdefault((forbidding[row], column), "One lesson says to avoid what the other says to do")
    for (index, other_index), reason in opposed.items():
        first, other = lessons[index], lessons[other_index]
        yield Advice(
            kind=Suggestion.Kind.CONTRADICTION,
            heuristic_id=first.id,
            content_sha256=first.revision.content_sha256,
            other_id=other.id,
            other_sha256=other.revision.content_sha256,
            reason=f"{reason}. Decide which holds, or narrow one of them.",
            similarity=round(min(float(first.vector @ other.vector), 1.0), 4),
            author=AUTHOR,
        )


def _find_near(vectors: Vectors) -> Iterator[tuple[int, int]]:
    """Give each vector with those before it that are near enough, at most so many and the nearest first."""
    for column in range(1, len(vectors)):
        similarities = vectors[:column] @ vectors[column]
        nearest = np.argsort(-similarities, kind="stable")[:TRIED]
        # Only a few each: the words of every pair are compared afterwards, which takes longer.
        yield from ((column, int(row)) for row in nearest if similarities[row] >= OPPOSED_SIMILARITY)


def compare(one: Lesson, other: Lesson, *, anywhere: bool = False) -> Comparison:
    """Tell whether two lessons give the same advice; `anywhere` leaves aside which families they are for."""
    text, other_text = one.revision.as_text(), other.revision.as_text()
    if anywhere:
        text, other_text = (replace(side, scope="project", task_id="") for side in (text, other_text))
    similarity = float(one.vector @ other.vector)
    return compare_heuristics(text, other_text, similarity=similarity)


def _runs(lesson: Lesson) -> str:
    return f"{lesson.support} run{'' if lesson.support == 1 else 's'}"
