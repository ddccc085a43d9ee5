"""Turn what several runs noted in different words into one lesson: by similarity, without a language model."""

from collections.abc import Iterable, Sequence

import numpy as np

from memory.heuristics.text import RULE_TAG, Citation, HeuristicText
from memory.meaning.comparison import NEAR, MeaningVerdict, compare_texts
from reflection.consolidation.drafts import Author, NewLesson, Support
from reflection.consolidation.similarity import group_similar
from reflection.consolidation.sources import RecordedNote
from reflection.reflectors.matching import MERGE_SIMILARITY
from reflection.reflectors.nearest import embed_texts
from reflection.reflectors.rules.detectors.recorded_notes import describe_tasks
from reflection.reflectors.rules.note_advice import NoteAdvice, advise, drop_numbers
from reflection.reflectors.rules.wording import MAX_GUIDELINE_CHARS, MAX_TRIGGER_CHARS, cut, is_general

MIN_RUNS = 2  # that must have noted the same
VERSION = "1"
AUTHOR = Author(method="rules", version=VERSION)
MAX_SOURCE_TASK_CHARS = 500
MAX_SUMMARY_CHARS = 400
MIN_FAMILIES = 3
_POLARITY = {"mistake": "avoid", "success": "works", "summary": "works"}


def group_notes(notes: Sequence[RecordedNote]) -> list[list[tuple[RecordedNote, float]]]:
    """Return groups of notes that mean the same, each from several runs and with something new, in a fixed order.

    Without an embedder, only notes with the same words are the same.
    """
    texts = list(dict.fromkeys(drop_numbers(note.text) for note in notes))
    if not texts:
        return []
    embedded = embed_texts([(text,) for text in texts])
    positions = {text: index for index, text in enumerate(texts)}
    # Without an embedder every text is at right angles to all others, so only equal ones meet.
    vectors = np.eye(len(texts), dtype=np.float32) if embedded is None else embedded[1]
    grouped = group_similar(
        notes,
        vectors[[positions[drop_numbers(note.text)] for note in notes]],
        at_least=NEAR,
        may_join=lambda leader, note: leader.kind == note.kind and _say_the_same(leader.text, note.text),
    )
    groups = [[(notes[index], similarity) for index, similarity in group] for group in grouped]
    return [
        group
        for group in groups
        if len({note.trajectory_id for note, _ in group}) >= MIN_RUNS and any(note.new for note, _ in group)
    ]


def _say_the_same(one: str, other: str) -> bool:
    return compare_texts(drop_numbers(one), drop_numbers(other)).verdict is MeaningVerdict.SAME


def distil_notes(groups: Iterable[Sequence[tuple[RecordedNote, float]]]) -> list[NewLesson]:
    """Propose for each group what the note nearest to the others advises."""
    return [lesson for group in groups if (lesson := _distil(group)) is not None]


def _distil(group: Sequence[tuple[RecordedNote, float]]) -> NewLesson | None:
    best: tuple[RecordedNote, NoteAdvice] | None = None
    # A total order, so that a repeated consolidation proposes the same words.
    for note, _ in sorted(group, key=lambda pair: (-pair[1], -pair[0].score, pair[0].at, pair[0].trajectory_id)):
        advice = _read_summary(note) if note.kind == "summary" else advise(note.text, kind=note.kind)
        if advice is not None:
            best = note, advice
            break
    if best is None:
        return None
    note, advice = best
    # `dict.fromkeys` keeps the order in which the families came.
    families = list(dict.fromkeys(noted.family for noted, _ in group))
    trigger = f"When {advice.condition}" if advice.condition else describe_tasks(families, [note.task])
    if not trigger or len(trigger) > MAX_TRIGGER_CHARS or len(advice.what) > MAX_GUIDELINE_CHARS:
        return None
    if _says_too_little(advice, families, [similarity for _, similarity in group]):
        return None
    runs = {noted.trajectory_id: noted for noted, _ in group}
    across = len(families) > 1 or not families[0]
    where = f"in {len(families)} task families" if len(families) > 1 else "in one task family"
    kind = {"mistake": "as a mistake", "success": "as a success", "summary": "in their summaries"}[note.kind]
    reason = f"{len(runs)} runs {where} noted this {kind}, in {len({noted.text for noted, _ in group})} wordings."
    return NewLesson(
        text=HeuristicText(
            trigger=trigger,
            guideline=advice.what,
            rationale=reason,
            polarity=_POLARITY[note.kind],
            scope="project" if across else "task_family",
            task_id="" if across else families[0],
            tags=("consolidated", RULE_TAG),
            source_task=note.task[:MAX_SOURCE_TASK_CHARS],
        ),
        support=tuple(
            Support(trajectory_id=noted.trajectory_id, citation=Citation(quote=cut(noted.text, 200)))
            for noted in runs.values()
        ),
        reason=reason,
        confidence=round(min(0.9, 0.4 + 0.1 * len(runs)), 2),
        author=AUTHOR,
    )


def _says_too_little(advice: NoteAdvice, families: Sequence[str], similarities: Sequence[float]) -> bool:
    """Tell whether advice without a condition comes from too few families, in too different words, to apply elsewhere.

    Read by hand: of such advice from two families, none held for both (docs/consolidation.md).
    """
    if advice.condition or not 1 < len(families) < MIN_FAMILIES:
        return False
    return min(similarities) < MERGE_SIMILARITY


def _read_summary(note: RecordedNote) -> NoteAdvice | None:
    """Return what the best of several successful runs did."""
    summary = drop_numbers(note.text)
    if len(summary) > MAX_SUMMARY_CHARS or not is_general(summary):
        return None
    return NoteAdvice(what=f"Do as the best of the runs that succeeded did: {summary}")
