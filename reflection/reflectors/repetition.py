"""What a run says that it was told: repeating a lesson proves nothing, however often it happens."""

from collections.abc import Iterable

from memory.heuristics.models import HeuristicRevision
from memory.meaning.comparison import Comparison, MeaningVerdict, compare_advice

ALREADY_SERVED = "Already served: the run repeats a lesson that it was given, which proves nothing new."


def write_given(revision: HeuristicRevision) -> str:
    """Write a lesson that a run was given as an episode keeps it: its trigger and its guideline, in two lines."""
    return "\n".join(" ".join(part.split()) for part in (revision.trigger, revision.guideline))


def find_given(trigger: str, guideline: str, injected: Iterable[str]) -> Comparison | None:
    """Return how advice compares with what the run was given: the same, or else a doubt; None where it is other advice.

    Args:
        injected: the lessons that the run was given, as `write_given` writes them.
    """
    doubt = None
    for given in injected:
        when, _, said = given.rpartition("\n")
        compared = compare_advice(trigger, guideline, when, said)
        if compared.verdict is MeaningVerdict.SAME:
            return compared
        if compared.verdict is MeaningVerdict.DOUBTFUL and doubt is None:
            doubt = compared
    return doubt
