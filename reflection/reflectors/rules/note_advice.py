"""Turn the notes of an agent about its own run into advice for the next run.

A note that is an instruction stays one, in its own words. A note about what happened ("I cancelled before checking the
fare class") becomes advice only if a rule can say it in a correct sentence ("Do not cancel before checking the fare
class."). All others give no advice: a person or a language model may see more in them.

Agents also write in the first person about specific things: "In the next trial, I will go to sinkbasin 1 …". Of such a
note the part stays that says what to do, addressed to the reader, without the numbers of things.
"""

import re
from dataclasses import dataclass

from reflection.reflectors.rules.note_events import is_fact, is_instruction, read_event, spell_out
from reflection.reflectors.rules.wording import as_sentence, is_general

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
    r"(?: (?:also|now|instead|then))? (?P<what>"
    r"(?!(?:(?:not|never|always) )?(?:have|be|admit|say|rather|like|love|prefer|probably|likely)\b).+)$",
    re.I,
)
_BLAME = re.compile(
    r"\b(?:i was|i got|i did|i could|i had|i tried|my plan was|was unable|test cases? (?:are|is|themselves|may|might)|"
    r"tests? (?:are|themselves)|(?:is|are) (?:incorrect|wrong)|current (?:implementation|code)|"
    r"implementation is correct|seems?|error messages?|test cases?|(?:this|the) issue|as expected)\b",
    re.I,
)
_POINTS_BACK = re.compile(r"\b(?:it|its|them|they|their|this|these|those|he|she|him|her)\b", re.I)
_FIRST_PERSON = re.compile(r"\b(?:I|my|me|mine|myself|we|us|our|ours)\b|\bimplementation\b")
_LABEL = re.compile(
    r"^[-*•\s]*(?:(?:lessons?(?: learn(?:ed|t))?|mistakes?|success(?:es)?|note(?: to self)?|todo|tip|takeaway|learning)"
    r" ?[:–-]|(?:for|in) (?:the )?(?:future|next time|next run),? |next time[,:]?(?= (?!i |we )))\s*",
    re.I,
)
_QUOTES = str.maketrans({"’": "'", "‘": "'"})
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


def advise(note: str, *, kind: str) -> NoteAdvice | None:
    """Return what a note says to do, or None if it says nothing or only something about its own run.

    Args:
        note: what the agent wrote.
        kind: "success" if that is how it is done right, "mistake" if something went wrong.
    """
    note = _LABEL.sub("", drop_numbers(_SPACE.sub(" ", note).strip())).translate(_QUOTES)
    sentences = [sentence for part in _SENTENCE.split(note) if (sentence := part.strip())]
    stays = all(is_instruction(statement) or (kind == "success" and is_fact(statement)) for statement in sentences)
    if stays and not _FIRST_PERSON.search(note) and _is_usable(own := as_sentence(note)):
        return NoteAdvice(what=own[:1].upper() + own[1:])
    advice = read_advice(note)
    if advice is None and len(sentences) == 1:
        event = read_event(sentences[0], went_well=kind == "success")
        advice = NoteAdvice(what=event) if event and _is_usable(event) else None
    return advice


def say_right(note: str) -> str:
    """Return the right decision or the lesson of a mistake card as a sentence; "" if it does not say what to do."""
    own = as_sentence(drop_numbers(note))
    if is_instruction(own) and is_general(own):
        return own
    advice = advise(note, kind="success")
    return advice.what if advice is not None else ""


def read_advice(note: str) -> NoteAdvice | None:
    """Return what a note resolves or says to do in one of its sentences, addressed to the reader."""
    note = drop_numbers(_SPACE.sub(" ", note).strip())
    sentences = [sentence for part in _SENTENCE.split(note) if (sentence := part.strip())]
    condition = _condition_of(note)
    resolved = [match["what"] for sentence in sentences if (match := _RESOLUTION.match(spell_out(sentence)))]
    for what in sorted(resolved, key=_is_reservation):
        advice = _advise(what, condition)
        if advice is not None:
            return advice
    for index, sentence in enumerate(sentences):
        points_back = index and _POINTS_BACK.search(sentence)  # to a sentence that would be left out
        if is_instruction(sentence) and not points_back and not _BLAME.search(sentence):
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
    what, own = what.strip(), False
    for pattern in (_LEADING_IF, _TRAILING_IF):
        if match := pattern.match(what):
            what, condition, own = match["what"].strip(), _readdress(match["condition"]), True
            what = re.sub(r"^(?:then )?(?:I|we) (?:will|should|must|need to) ", "", what, flags=re.I)
            break
    what = re.sub(r"^not\b", "do not", _readdress(what), flags=re.I)
    advice = _sentence(re.sub(r"^(always|never) not\b", "do not", what, flags=re.I))
    if not _is_usable(advice):
        return None
    fits = is_general(condition) and len(condition) <= MAX_CONDITION_CHARACTERS
    if own and not fits:
        # Without its condition it would say more than was meant.
        return None
    return NoteAdvice(what=advice, condition=condition if fits else "")


def _is_usable(advice: str) -> bool:
    return MIN_ADVICE_CHARACTERS <= len(advice) <= MAX_ADVICE_CHARACTERS and is_general(advice)


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
