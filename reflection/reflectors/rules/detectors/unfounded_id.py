"""An id was given that no one had named, or that is the id of something else, and the call never worked."""

import re
from typing import Any

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import ReadRun, RunCall, occurs
from reflection.reflectors.rules.tools import is_change, is_harmful, is_read, words_of
from reflection.reflectors.rules.wording import code, is_general, parameter_name, with_article

MAX_FAILURES = 50
MIN_WORKED = 2
MIN_VALUE_CHARS = 2
BARE = "input"  # of a call that was written as text, as in `delete("a1")`
_BARE_ID = re.compile(r"\S{0,60}[\d@_]\S{0,60}")
_ID_WORDS = frozenset(["id", "ids", "uuid", "slug", "handle"])
_LISTS = frozenset(["list", "search", "find", "get"])


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such ids in failed runs, and for other values of which only a lookup's form was ever taken."""
    if not run.failed:
        return []
    matches: dict[str, RuleMatch] = {}
    for failed in [call for call in run.calls if call.error and not call.command][:MAX_FAILURES]:
        fixed = run.next_success(failed)
        for path, values in sorted(failed.leaves.items()):
            value = values[0].strip("'\"") if isinstance(values[0], str) else values[0]
            match = None
            if _is_not_found(failed) and _is_meant(failed, path, value):
                match = _explain(run, failed, path, value, fixed)
            elif fixed is None and isinstance(value, str):
                match = _rewritten(run, failed, path, value)
            if match:
                matches.setdefault(match.trigger, match)
    return list(matches.values())


def _is_not_found(call: RunCall) -> bool:
    return call.error is not None and call.error.has(ErrorKind.NOT_FOUND)


def _is_id(path: str) -> bool:
    words = words_of(path.rpartition(".")[2])
    return len(words) > 1 and words[-1] in _ID_WORDS


def _is_meant(call: RunCall, path: str, value: Any) -> bool:
    """Return whether an error is about this id: it repeats it, or the call has no other and names its kind of thing."""
    if path == BARE:
        # Written as text, a call has no names of parameters.
        return isinstance(value, str) and _BARE_ID.fullmatch(value) is not None and _names_thing(call, call.name)
    name = path.rpartition(".")[2]
    if not (_is_id(path) or name in _ID_WORDS) or not is_general(parameter_name(path)):
        return False
    is_only = sum(map(_is_id, call.leaves)) <= 1 and _names_thing(call, call.name if name in _ID_WORDS else name)
    return occurs(value, call.output) or is_only


def _names_thing(call: RunCall, name: str) -> bool:
    """Return whether the error has a word of a name, as in "Email not found" for `email_id`."""
    assert call.error is not None
    said = {word.removesuffix("s") for word in words_of(call.error.text)}
    return any(len(word) > 2 and word.removesuffix("s") in said for word in words_of(name) if word not in _ID_WORDS)


def _explain(run: ReadRun, failed: RunCall, path: str, value: Any, fixed: RunCall | None) -> RuleMatch | None:
    tool, parameter = code(failed.name), "id" if path == BARE else parameter_name(path)
    owner = "" if fixed or path == BARE else _true_owner(run, failed, path, value)
    lister = _lister(run, failed, path)
    if fixed:
        # With another id it worked: the lesson is from where that one came, if it was looked up only then.
        source = run.source_of((fixed.leaves.get(path) or ("",))[0], before=fixed.index)
        if source is None or source.index < failed.index or not is_read(source.name):
            return None
        lister = source.name
    if owner:
        trigger = f"When about to call {tool} with the value of {parameter_name(owner)} as {parameter}"
        told = f"A value of {parameter_name(owner)} is not one."
        avoid = f"Passing the value of {parameter_name(owner)} as {parameter}."
        origin = f"which other calls take as {parameter_name(owner)}"
    elif not occurs(value, run.text_before(failed.index)) and not occurs(value, run.episode.system_prompt):
        trigger = f"When about to call {tool} with {with_article(parameter)} that neither the task nor an answer names"
        told = "If it shows none that fits, say so."
        avoid = f"Making up {with_article(parameter)} from a description."
        origin = "which nothing before had named"
    else:
        return None
    how = f"with {code(lister)}" if lister else "with a tool that lists or searches for them"
    end = f"It worked at step {fixed.index} with one that had been looked up." if fixed else "It never worked."
    thing = "the id" if path == BARE else parameter
    return RuleMatch(
        rule="unfounded_id",
        trigger=trigger,
        guideline=f"First look for {thing} {how}, and copy it from the answer. {told}",
        avoid=avoid,
        rationale=(
            f"At step {failed.index} {tool} was given {with_article(parameter)} {origin}, and did not find it. {end} "
            f"{run.ending}"
        ),
        polarity="mixed",
        confidence=0.6 if fixed else 0.75,
        citations=(run.cite(failed.step, failed.error.text if failed.error else ""),),
        tools=(failed.name, *((lister,) if lister else ())),
    )


def _rewritten(run: ReadRun, failed: RunCall, path: str, value: str) -> RuleMatch | None:
    """Propose to copy a value where the calls that worked had theirs from one lookup, and the refused one had not."""
    assert failed.error is not None
    if not failed.error.has(ErrorKind.NOT_FOUND, ErrorKind.FORM) or len(value) < MIN_VALUE_CHARS:
        return None
    if occurs(value, run.text_before(failed.index)) or not is_general(parameter_name(path)):
        return None
    worked = [call for call in run.calls if call.name == failed.name and not call.error and path in call.leaves]
    sources = {call.leaves[path][0]: run.latest_source(call.leaves[path][0], before=call.index) for call in worked}
    names = {source.name if source else "" for text, source in sources.items() if len(str(text)) > 1}
    name = next(iter(names)) if len(names) == 1 and len(sources) >= MIN_WORKED else ""
    if not name or name == failed.name or is_change(name):
        return None
    tool, parameter, source = code(failed.name), parameter_name(path), code(name)
    return RuleMatch(
        rule="unfounded_id",
        trigger=f"When about to call {tool} with {with_article(parameter)} that no answer has shown",
        guideline=f"Copy {parameter} from the answer of {source} as it stands, also if it looks too short or odd.",
        avoid=f"Writing {parameter} yourself in place of what {source} returned, or sending a refused one again.",
        rationale=(
            f'At step {failed.index} {tool} answered "{failed.error.shape}" to a {parameter} of which no answer '
            f"speaks; {len(sources)} others, which {source} had returned, were taken. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.75,
        citations=(run.cite(failed.step, failed.error.text),),
        tools=(failed.name, name),
    )


def _true_owner(run: ReadRun, failed: RunCall, path: str, value: Any) -> str:
    """Return the other id parameter as which a value was given in the run, "" if it was none or taken as this one."""
    others = [call for call in run.calls if call is not failed]
    taken = [name for call in others for name, values in call.leaves.items() if value in values and _is_id(name)]
    if path in taken or any(other.leaves.get(path) == (value,) and not other.error for other in others):
        return ""
    return next((name for name in taken if is_general(parameter_name(name))), "")


def _lister(run: ReadRun, failed: RunCall, path: str) -> str:
    """Return a tool that lists what the id belongs to: `list_sensors` for `sensor_id`."""
    thing = "_".join(words_of(path.rpartition(".")[2])[:-1]) or words_of(failed.name)[-1]
    names = dict.fromkeys((*run.episode.tools, *(call.name for call in run.calls)))
    for name in names:
        # In `email.search_emails`, the first word is that of a group of tools.
        words = words_of(name.rpartition(".")[2])
        is_plural = "_".join(words[1:]) in (f"{thing}s", f"{thing}_records", f"{thing}es")
        if words and words[0] in _LISTS and is_plural and name != failed.name and not is_harmful(name):
            return name
    return ""
