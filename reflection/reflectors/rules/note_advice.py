"""Turn the notes of an agent about its own run into advice for the next run.

Agents write notes in the first person about specific things: "In the next trial, I will go to sinkbasin 1 …". This
module keeps the part that says what to do, addresses it to the reader, and drops the numbers of things. A note without
such a part, or one that makes sense only in its run, gives no advice; a person or a language model may see more in it.
"""

import re
from dataclasses import dataclass

from reflection.reflectors.rules.wording import is_general

MIN_ADVICE_CHARACTERS = 15
MAX_ADVICE_CHARACTERS = 400
MAX_CONDITION_CHARACTERS = 200

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_SPACE = re.compile(r"\s+")
# A thing's number ("drawer 3", "cabinet (1-6)"), but not an amount ("at least 5", "by 2")
_AMOUNT_BEFORE = (
    "about above after all and any are around as at below between by count divide divided each equal equals every "
    "exactly exceeds first for from have in index is last least length level limit line mod modulo most next not of "
    "on only or over page par power than the then times to top under until up version with within step"
)
_NUMBERED = re.compile(
    rf"\b(?!(?:{'|'.join(_AMOUNT_BEFORE.split())})\b)(?P<thing>[a-z]{{3,}}) "
    r"(?:\d{1,3}(?: ?- ?\d{1,3})?|\(\d{1,3}(?: ?- ?\d{1,3})?\))(?=[\s,.;:)]|$)"
)
_RESOLUTION = re.compile(
    r"^(?:so |therefore,? |thus,? |instead,? )?"
    r"(?:(?:in|on|for|at) (?:the|my|a|this) (?:next|new|future|following) (?:trial|attempt|try|run|time|episode)s?,? "
    r"|next time,? )?"
    r"(?:i|we) (?:will|shall|should|need to|must|would|'ll|plan to|am going to)"
    r"(?: (?:also|now|instead|always|then))? (?!have\b|be\b)(?P<what>.+)$",
    re.I,
)
_DIRECTION = re.compile(
    r"^(?:(?!that\b|which\b|because\b)[\w`()'-]+,? ){0,7}?(?:should(?! have)|must|needs? to|ought to)\b"
    r"|^(?:please )?(?:make sure|always|never|do not|don't)\b",
    re.I,
)
_BLAME = re.compile(
    r"\b(?:i was|i got|i did|i could|i had|i tried|my plan was|was unable|test cases? (?:are|is|themselves|may|might)|"
    r"tests? (?:are|themselves)|(?:is|are) (?:incorrect|wrong)|current (?:implementation|code)|"
    r"implementation is correct|seems?|error messages?|test cases?|(?:this|the) issue|as expected)\b",
    re.I,
)
_PLAN = re.compile(r"\bmy plan was to (?P<what>[^.;]+)", re.I)
_STUCK = re.compile(r"\bI (?:was|got) stuck in a loop(?: (?:in which|where) I (?P<what>[^.;]+))?", re.I)
_TRAILING_IF = re.compile(
    r"^(?P<what>.+?),? (?:if|when|whenever) (?P<condition>(?:I|you|the|there|it|a)\b[^,.;]+)\.?$", re.I
)
_LEADING_IF = re.compile(r"^(?:if|when|whenever) (?P<condition>[^,.;]+),\s*(?P<what>.+)$", re.I)
_ADDRESS = (
    (re.compile(r"\bI am\b|\bI'm\b", re.I), "you are"),
    (re.compile(r"\bI was\b", re.I), "you were"),
    (re.compile(r"\bmyself\b", re.I), "yourself"),
    (re.compile(r"\bmy\b", re.I), "your"),
    (re.compile(r"\bI\b"), "you"),
    (re.compile(r"\bme\b"), "you"),
    (re.compile(r"\bagain\b\.?$", re.I), ""),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteAdvice:
    """The advice in a note, as a sentence, and its condition if the note has one."""

    what: str
    condition: str = ""


def read_advice(note: str) -> NoteAdvice | None:
    """Return what a note says to do, or None if it says nothing or only something about its own run."""
    note = drop_numbers(_SPACE.sub(" ", note).strip())
    sentences = [sentence for part in _SENTENCE.split(note) if (sentence := part.strip())]
    condition = _condition_of(note)
    resolved = [match["what"] for sentence in sentences if (match := _RESOLUTION.match(sentence))]
    for what in sorted(resolved, key=_is_reservation):
        advice = _advise(what, condition)
        if advice is not None:
            return advice
    for sentence in sentences:
        if _DIRECTION.search(sentence) and not _BLAME.search(sentence):
            advice = _advise(sentence, condition)
            if advice is not None:
                return advice
    return None


def drop_numbers(text: str) -> str:
    """Drop the numbers that tell things apart in one run: "drawer 3" becomes "drawer"."""
    return _NUMBERED.sub(lambda match: match["thing"], text)


def _is_reservation(what: str) -> bool:
    """Return whether a resolution is only a way out of trouble, which says less than a plan."""
    return re.search(r"\b(?:if|when) I (?:am|get)\b|\btry to execute\b", what, re.I) is not None


def _advise(what: str, condition: str) -> NoteAdvice | None:
    what = what.strip()
    for pattern in (_LEADING_IF, _TRAILING_IF):
        if match := pattern.match(what):
            what, condition = match["what"].strip(), _readdress(match["condition"])
            what = re.sub(r"^(?:then )?(?:I|we) (?:will|should|must|need to) ", "", what, flags=re.I)
            break
    advice = _sentence(_readdress(what))
    if not MIN_ADVICE_CHARACTERS <= len(advice) <= MAX_ADVICE_CHARACTERS or not is_general(advice):
        return None
    fits = is_general(condition) and len(condition) <= MAX_CONDITION_CHARACTERS
    return NoteAdvice(what=advice, condition=condition if fits else "")


def _condition_of(note: str) -> str:
    """Return the situation that a note describes: its plan, or the trouble it got into."""
    if match := _PLAN.search(note):
        return f"the plan is to {_readdress(match['what'])}"
    if match := _STUCK.search(note):
        doing = re.sub(r"^(?:continually|repeatedly|kept)\s*", "", match["what"] or "")
        return (
            f"the same thing is done again and again: you {_readdress(doing)}" if doing else "you are stuck in a loop"
        )
    return ""


def _readdress(text: str) -> str:
    for pattern, words in _ADDRESS:
        text = pattern.sub(words, text)
    return text.strip(" .,;")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
