"""The task asked for information, and the final answer holds none of it."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun

MAX_EMPTY_WORDS = 3

_ASKS = re.compile(
    r"\b(?:how (?:many|much|long|far|often)|what(?:'s| is| are| was| were| time)|which|who|when is|where is"
    r"|tell me|give me|list the|show me|provide me|recommend|answer with)\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(r"\W*(?:done|ok(?:ay)?|finished|completed?|task completed?|all done|yes)\W*", re.IGNORECASE)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for a run of a single exchange that failed, whose task asks for something and whose answer is "Done."."""
    if not run.failed or len(run.turns) != 1 or not run.calls or not _ASKS.search(run.episode.task):
        return []
    (turn,) = run.turns
    if turn.step is not run.episode.steps[-1] or not _EMPTY.fullmatch(turn.said):
        return []
    return [
        RuleMatch(
            rule="unanswered_question",
            trigger="When the task asks for information and the final answer is about to be given",
            guideline=(
                "Put the information itself into the final answer, every part that was asked for, in the form that was "
                "asked for."
            ),
            avoid="Answering only that it is done.",
            rationale=(
                f"The task asks for information. The only answer, at step {turn.index}, holds none. {run.ending}"
            ),
            polarity="avoid",
            confidence=0.7,
            citations=(run.cite(turn.step, turn.said),),
        )
    ]
