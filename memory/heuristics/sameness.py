"""Whether two lessons give the same advice."""

from memory.heuristics.text import HeuristicText
from memory.meaning.comparison import Comparison, MeaningVerdict, compare_advice, compare_texts


def compare_heuristics(one: HeuristicText, other: HeuristicText, *, similarity: float | None = None) -> Comparison:
    """Tell whether two lessons give the same advice; `similarity` is the cosine of their vectors.

    What holds for another family or in another sense is other advice, and so is what one of them limits further.
    """
    comparison = compare_advice(one.trigger, one.guideline, other.trigger, other.guideline, similarity=similarity)
    if comparison.verdict is not MeaningVerdict.SAME:
        return comparison
    if one.polarity != other.polarity:
        return Comparison(MeaningVerdict.DOUBTFUL, "one says what works, the other what to avoid")
    if one.avoid and other.avoid:
        avoided = compare_texts(one.avoid, other.avoid, similarity=similarity)
        if avoided.verdict is not MeaningVerdict.SAME:
            return Comparison(MeaningVerdict.DOUBTFUL, f"of what to avoid, {avoided.reason}")
    if one.not_when or other.not_when:
        limits = compare_texts(one.not_when, other.not_when, similarity=similarity)
        if limits.verdict is not MeaningVerdict.SAME:
            return Comparison(MeaningVerdict.DOUBTFUL, "their exceptions differ")
    if get_place(one) != get_place(other):
        return Comparison(MeaningVerdict.DOUBTFUL, "they are for different tasks")
    return comparison


def get_place(text: HeuristicText) -> str:
    """Return the task family that a lesson is for, "" for every task of its project."""
    return "" if text.scope == "project" else text.task_id
