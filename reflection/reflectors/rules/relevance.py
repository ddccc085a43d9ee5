"""Whether a finding bears on how a failed run ended, or is about an error that the run could do without."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import THINK, is_read, words_of

MIN_WORD_CHARS = 3
MIN_TRIES = 2
# Detectors that start from one call that failed. The others look at the whole run.
OF_ONE_CALL = frozenset(
    {
        "changed_argument",
        "gave_up",
        "named_alternative",
        "refused_parameter",
        "repaired_code",
        "unfounded_id",
        "unknown_name",
    }
)
_GENERIC_WORDS = """
tool tools api call run execute code bash shell sql query http request requests post put open use data input info
information details basic free all
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())


def bears_on_the_end(match: RuleMatch, run: ReadRun) -> bool:
    """Return whether a failed run may have failed over what a match is about; True for other runs and findings."""
    if not run.failed or match.rule not in OF_ONE_CALL:
        return True
    cited = {citation.first_step for citation in match.citations}
    failed = next((call for call in run.calls if call.index in cited and call.error), None)
    if failed is None:
        return True
    assert failed.error is not None
    # What several calls failed over was no passing error.
    if sum(call.error is not None and call.error.shape == failed.error.shape for call in run.calls) >= MIN_TRIES:
        return True
    return not _was_mended_at_once(run, failed) and not _was_not_needed(run, failed)


def _was_mended_at_once(run: ReadRun, failed: RunCall) -> bool:
    """Return whether the very next call was of the same tool or program and worked, and the run went on from there.

    Where it ended with that call, nothing else shows why it failed.
    """
    later = [call for call in run.calls if call.index > failed.index]
    return len(later) > 1 and later[0].label == failed.label and not later[0].error


def _was_not_needed(run: ReadRun, failed: RunCall) -> bool:
    """Return whether neither the request nor the last words speak of what a tool is for that never worked.

    A run that ended with that call, or in which nothing else worked, needed it, as far as one can see.
    """
    if failed.command or run.calls[-1] is failed or not run.closing or all(call.error for call in run.calls):
        return False
    things = {word for word in words_of(failed.name) if len(word) >= MIN_WORD_CHARS and not _is_verb(word)}
    text = f"{run.episode.task}\n{run.closing}".lower()
    return bool(things) and not any(re.search(rf"\b{re.escape(thing.rstrip('s'))}", text) for thing in things)


def _is_verb(word: str) -> bool:
    return word in _GENERIC or word in THINK or is_read(word)
