"""What a run says that it was told: repeating a lesson proves nothing, however often it happens."""

import re
from collections.abc import Iterable

from memory.heuristics.models import HeuristicRevision
from memory.meaning.comparison import Comparison, MeaningVerdict, compare_advice

ALREADY_SERVED = "Already served: the run repeats a lesson that it was given, which proves nothing new."

# How agents name a lesson that they were given: "As lesson H-1a2b3c4d says, …", "Following the advice to …".
_LESSON = r"(?:(?:the|this|that|a) )?(?:(?:given|served|earlier|approved) )?(?:lesson|advice|guidance|memory)s?"
_ID = r"\(?\[?\bH-[0-9a-f]{8}\b\]?\)?"
_SPEAKING_OF_IT = re.compile(
    rf"\b(?:as|like) (?:{_LESSON}(?: {_ID})?|{_ID}) (?:said|says|advised|advises|suggested|suggests|recommends)\b[,:]?"
    rf"|\b(?:by |i |we )?(?:following|followed|applying|applied|per|according to|thanks to) {_LESSON}(?: {_ID})?"
    r"(?: (?:to|that)\b)?[,:]?"
    rf"|\b{_LESSON} {_ID}(?: (?:to|that|says|said)\b)?[,:]?|{_ID}[,:]?"
    r"|^it (?:helped|worked|paid off) to\b",
    re.I,
)
_CONDITION = re.compile(r"(?:when|if|before|after|while|once)\b", re.I)


def write_given(revision: HeuristicRevision) -> str:
    """Write a lesson that a run was given as an episode keeps it: its trigger and its guideline, in two lines."""
    return "\n".join(" ".join(part.split()) for part in (revision.trigger, revision.guideline))


def find_given(trigger: str, guideline: str, injected: Iterable[str]) -> Comparison | None:
    """Return how advice compares with what the run was given: the same, or else a doubt; None where it is other advice.

    That the advice speaks of a lesson is no difference, nor is a condition that stands where the advice should.

    Args:
        injected: the lessons that the run was given, as `write_given` writes them.
    """
    trigger, guideline = (" ".join(_SPEAKING_OF_IT.sub(" ", text).split()) for text in (trigger, guideline))
    wordings = [(trigger, guideline)]
    if trigger and _CONDITION.match(guideline):
        wordings.append((guideline, trigger))
    doubt = None
    for given in injected:
        when, _, said = given.rpartition("\n")
        compared = [compare_advice(condition, advice, when, said) for condition, advice in wordings]
        if same := next((answer for answer in compared if answer.verdict is MeaningVerdict.SAME), None):
            return same
        if compared[0].verdict is MeaningVerdict.DOUBTFUL and doubt is None:
            doubt = compared[0]
    return doubt
