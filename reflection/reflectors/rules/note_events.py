"""Tell what a sentence of a note is: an instruction, a fact, or something that happened.

What happened is read by the grammar of the sentence alone. Each form below has one reading whatever its words are, or
it is not read. A negation moves to the front where it governs the whole sentence; where several verbs are joined, or
another negation or a second clause could change the meaning, nothing is said.
"""

import re

from reflection.reflectors.rules.verbs import (
    BASES,
    CAREFUL,
    CARELESS,
    GERUNDS,
    PARTICIPLES,
    PASTS,
    THIRDS,
    write_gerund,
)

_WORD = re.compile(r"[a-z]+(?:-[a-z]+)?", re.I)
_NOT = re.compile(r"\b(do|does|did|is|are|was|were|have|has|had|should|would|could|must|need)n't\b", re.I)
_LEADING_CLAUSE = re.compile(
    r"^(?:if|when|whenever|before|after|once|unless|until|for|in|on|with|to|at|while|as soon as)\b[^,;:]+,\s*", re.I
)
_LEADING_WORDS = re.compile(r"^(?:(?:please|first|then|also|just|simply|instead)(?:, | ))+", re.I)
_ORDER = re.compile(
    r"^(?:do not|don't(?!:)|make sure|be (?:sure|careful)|take care|see to it|ensure|remember|try to|avoid \w+ing|"
    r"prefer|refrain from)\b",
    re.I,
)
_DUTY = re.compile(
    r"^(?:(?!that\b|which\b|who\b|because\b|since\b|so\b|thought\b)[\w`()/.'\"-]+,? ){1,9}?"
    r"(?:(?:should|must|ought to|shall)(?: (?:not|never|always|only|first|also))? (?!(?:not )?have\b)"
    r"|needs? to |ha(?:s|ve) to )"
    r"|^(?:there is no need|it is (?:better|best|important|necessary|essential|crucial|required|wise|safer)) to\b",
    re.I,
)
_EXPECTED = re.compile(
    r"\b(?:should|must) (?:be|have been) (?:fine|ok|okay|correct|right|easy|able|there|enough)\b", re.I
)
_DETERMINERS = "a an the it this that same wrong late too got was were had did made"
_NO_VERBS = frozenset(_DETERMINERS.split())
_FINITE = (
    "is are has have can cannot must should may might will would could was were had does did do works worked helps "
    "helped fails failed causes caused leads led resulted returned saves saved breaks broke prevents prevented "
    "ensured allows "
    "allowed means meant triggers triggered produces produced solved turned came went became seemed proved makes needs"
)
_PAST = re.compile(
    r"\b(?:was|were|had|did|been|got|went|came|became|worked|helped|failed|(?:\w+ed)(?= (?:the|a|an|my)\b))\b", re.I
)
_CLAUSE = re.compile(
    rf"\b(?:{'|'.join(_FINITE.split())}|because|since|so|but|although|though|however|whereas|which|who|thinking|hoping)\b|[;:?]",
    re.I,
)
_SUBJECT = re.compile(r"^(?:i|we|the (?:agent|assistant|model)|agent|assistant)\s+", re.I)
_FIRST = re.compile(r"\b(?:i|i'm|i'd|my|me|mine|myself|we|us|our)\b", re.I)
_ADVERB = re.compile(r"^(?:also|just|simply|wrongly|mistakenly|incorrectly|accidentally|carelessly|repeatedly) ", re.I)
_SINGLE = re.compile(
    r"\b(?:no|not|never|nothing|none|nobody|neither|nor|hardly|barely|rarely|seldom|scarcely|any\w*|either|yet|at all|"
    r"ever|only)\b",
    re.I,
)
_JOINED = re.compile(r",|\b(?:and|or|then|than)\b", re.I)
_ORDERED = re.compile(
    r"\b(?:before|without|first|instead of|after|until|twice|again|too (?:early|late|soon|often))\b", re.I
)
_OWN_CLAUSE = re.compile(r"\b(?P<when>before|after) (?:i|we) (?P<verb>[a-z]+)\b", re.I)
_PASSIVE = re.compile(
    r"^(?P<what>(?:the|a|an)\b[^,;]{1,60}?) (?:was|were)(?P<not> not| never)? (?P<verb>[a-z]+)(?P<rest> .+)$",
    re.I,
)
_PASSIVE_DUTY = re.compile(r"\b(?P<should>should|ought to) (?P<not>not |never )?have been (?P<verb>[a-z]+)\b", re.I)
_MUST = re.compile(
    r"^(?:should|must|needs? to|ha(?:s|ve) to|ought to) (?P<when>not |never |always |first )?(?P<verb>[a-z-]+)\b", re.I
)
_REGRET = re.compile(
    r"^(?:should|ought to)(?: have)?(?P<not> not| never)?(?: have)? (?P<first>first |always )?(?:have )?"
    r"(?P<verb>[a-z-]+)\b",
    re.I,
)
_FORGOT = re.compile(
    r"^(?:forgot|forgetting|neglected|neglecting|omitted|omitting) to (?P<what>(?P<verb>[a-z-]+)\b.*)$", re.I
)
_FAILED = re.compile(r"^(?:failed|failing|failure) to (?P<what>(?P<verb>[a-z-]+)\b.*)$", re.I)
_OMITTED = re.compile(
    r"^(?:(?P<did>did not|had not|have not|has not)|(?P<never>never)|not) (?P<verb>[a-z-]+)\b(?P<rest>.*)$", re.I
)
_BETTER = re.compile(
    r"^it (?:would have been|would be|was|is) (?P<judged>better|best|wiser|safer|wrong|a mistake|an error)"
    r"(?P<not> not)? to (?P<what>(?P<verb>[a-z-]+)\b.*)$",
    re.I,
)


def spell_out(sentence: str) -> str:
    """Write out the contractions of a sentence that matter to its meaning."""
    text = re.sub(r"\b(should|would|could|must)'ve\b", r"\1 have", _NOT.sub(r"\1 not", sentence), flags=re.I)
    return re.sub(r"\bwon't\b", "will not", text, flags=re.I)


def is_instruction(sentence: str) -> bool:
    """Return whether a sentence says what to do, whatever its condition."""
    if sentence.endswith("?") or _EXPECTED.search(sentence):
        return False
    text = _LEADING_WORDS.sub("", _LEADING_CLAUSE.sub("", sentence))
    if _ORDER.search(text):
        return True
    if (habit := re.match(r"(?:always|never) (?:first )?([a-z-]+)\b", text, re.I)) is not None:
        word = habit[1].lower()
        return word in BASES or not (_is_past(word) or word.endswith("ing") or word in _NO_VERBS)
    first = _first_word(text)
    if first in BASES and first not in CARELESS and not (first in PASTS and PASTS[first] == first):
        # "Refund without asking" and "Check was skipped" are orders in form only
        rest = text[len(first) :]
        return "without" not in rest and not re.match(
            r" ?(?:was|were|is|are|had|has|of|failed|error)\b|[:=]", rest, re.I
        )
    return _DUTY.search(text) is not None and not re.match(r"^(?:i|we)\b", text, re.I)


def is_fact(sentence: str) -> bool:
    """Return whether a sentence says, in the present tense, how something is."""
    if sentence.endswith("?") or _PAST.search(sentence) or _FIRST.search(sentence):
        return False
    words = [word.lower() for word in _WORD.findall(sentence)]
    if words and (words[0] in PASTS or words[0] in ("not", "without", "instead", "should", "must", "ought")):
        return False
    present = {
        "is",
        "are",
        "has",
        "have",
        "can",
        "cannot",
        "must",
        "should",
        "may",
        "will",
        "does",
        "do",
        "needs",
        "need",
    }
    return any(word in present or word in THIRDS for word in words[1:]) or bool(re.search(r"` \w+s\b", sentence))


def read_event(sentence: str, *, went_well: bool) -> str:
    """Return as advice what a sentence says happened; "" if it cannot be said without a doubt.

    Args:
        sentence: of a note, without a label before it.
        went_well: whether that is how it is done right.
    """
    if sentence.endswith("?"):
        return ""
    text = _OWN_CLAUSE.sub(_name_own_clause, spell_out(sentence).rstrip(" .!"))
    if (passive := _read_passive(text, went_well=went_well)) or _PASSIVE_DUTY.search(text):
        return passive
    text = _ADVERB.sub("", _SUBJECT.sub("", text))
    if _FIRST.search(text):
        return ""
    for read in (_read_regret, _read_forgotten, _read_omission, _read_deed):
        if advice := read(text, went_well):
            return f"{advice[:1].upper()}{advice[1:]}."
    return ""


def _name_own_clause(clause: re.Match[str]) -> str:
    base = PASTS.get(clause["verb"].lower())
    return f"{clause['when']} {write_gerund(base)}" if base else clause[0]


def _read_passive(said: str, *, went_well: bool) -> str:
    """Read "The fare class was not checked before cancelling" and "The fare class should have been checked"."""
    if (duty := _PASSIVE_DUTY.search(said)) is not None:
        rest = said[: duty.start()] + said[duty.end() :]
        if went_well or _FIRST.search(said) or _CLAUSE.search(rest) or duty["verb"].lower() not in PARTICIPLES:
            return ""
        words = f"{said[: duty.start()]}should {'not ' if duty['not'] else ''}be {said[duty.start('verb') :]}"
        return re.sub(r" instead$", "", words) + "."
    passive = _PASSIVE.match(said)
    if passive is None or PARTICIPLES.get(passive["verb"].lower()) is None or not _ORDERED.search(passive["rest"]):
        return ""
    if _FIRST.search(said) or _is_unclear(passive["rest"]) or re.search(r"\bwrong\b", passive["what"], re.I):
        return ""
    is_done = (passive["not"] is None) == went_well
    return f"{passive['what']} should {'' if is_done else 'not '}be {passive['verb']}{passive['rest']}."


def _read_regret(said: str, went_well: bool) -> str:
    """Read "should have checked …", "must not call …" and "it would have been better to …", which always say how."""
    if (better := _BETTER.match(said)) is not None:
        is_wrong = better["judged"] in ("wrong", "a mistake", "an error")
        is_done = (better["not"] is None) != is_wrong
        return _order(better["verb"], better["what"][len(better["verb"]) :], done=is_done)
    regret = _REGRET.match(said)
    if regret is None or "have" not in said[: regret.start("verb")].split():
        must = _MUST.match(said)
        if must is None or must["verb"].lower() not in BASES:
            return ""
        return (must["when"] or "").replace("not ", "do not ") + said[must.start("verb") :]
    base = PARTICIPLES.get(regret["verb"].lower(), "")
    advice = _order(base, said[regret.end() :], done=regret["not"] is None, forms=PARTICIPLES)
    if advice and regret["first"]:
        return regret["first"] + advice
    return advice


def _read_forgotten(said: str, went_well: bool) -> str:
    """Read "forgot to …" and "failed to check …". What an agent failed to find is not what it left undone."""
    if went_well:
        return ""
    if (forgot := _FORGOT.match(said)) is not None and forgot["verb"].lower() in BASES:
        return "" if _is_unclear(forgot["what"]) else f"remember to {forgot['what']}"
    if (failed := _FAILED.match(said)) is not None and failed["verb"].lower() in CAREFUL:
        return _order(failed["verb"].lower(), failed["what"][len(failed["verb"]) :], done=True)
    return ""


def _read_omission(said: str, went_well: bool) -> str:
    """Read "did not check …", "never checked …" and "not checking …"."""
    omitted = _OMITTED.match(said)
    if omitted is None:
        return ""
    verb = omitted["verb"].lower()
    if omitted["did"]:
        base = verb if omitted["did"].lower() == "did not" and verb in BASES else PARTICIPLES.get(verb, "")
    else:
        base = PASTS.get(verb, "") if omitted["never"] else GERUNDS.get(verb, "")
    if went_well:
        return _order(base, omitted["rest"], done=False, never=bool(omitted["never"]))
    return _order(base, omitted["rest"], done=True) if base in CAREFUL or (verb in GERUNDS and base) else ""


def _read_deed(said: str, went_well: bool) -> str:
    """Read "checked … first" and "checking … first"."""
    verb = _first_word(said)
    if verb in GERUNDS:
        # "Calling it twice causes errors" is a fact.
        if any(word.lower() in THIRDS for word in said.split()[3:]):
            return ""
        worked = re.sub(r" (?:worked|helped)(?: well)?$", "", said) if went_well else said
        return _order(GERUNDS[verb], worked[len(verb) :], done=went_well, forms=GERUNDS)
    base = PASTS.get(verb)
    if (
        base in ("fail", "forget") or base is None or (base == verb and not went_well)
    ):  # "Read the rules after cancelling" may be either
        return ""
    if not went_well and base not in CARELESS and not _ORDERED.search(said):
        return ""
    return _order(base, said[len(verb) :], done=went_well, forms=PASTS)


def _order(base: str, rest: str, *, done: bool, never: bool = False, forms: dict[str, str] | None = None) -> str:
    """Return an order to do or not to do something, or "" if the rest of the sentence could change its meaning."""
    if base not in BASES or not rest.startswith(" ") or _CLAUSE.search(rest) or _SINGLE.search(rest):
        return ""
    rest = re.sub(r"(?<= )instead$", "", rest).rstrip(" ,")
    if done:
        rest = _join(rest, forms or {})
        return f"{base}{rest}" if rest else ""
    if _JOINED.search(rest) or not rest:
        return ""
    return f"{'never' if never else 'do not'} {base}{rest}"


def _join(rest: str, forms: dict[str, str]) -> str:
    """Put what is joined by "and" into the form of an order, too; "" if a verb there is not known."""

    def convert(joined: re.Match[str]) -> str:
        return joined["and"] + forms.get(joined["verb"].lower(), joined["verb"])

    made = re.sub(
        r"(?P<and>(?:,|\b(?:and|then)) (?:and |then |only |also )*)(?P<verb>[a-z-]+)\b", convert, rest, flags=re.I
    )
    left = re.search(r"(?:,|\b(?:and|then)) (?:\w+ )?(?P<verb>[a-z]+(?:ed|ing))\b", made, re.I)
    return "" if left else made


def _is_unclear(rest: str) -> bool:
    return any(pattern.search(rest) for pattern in (_CLAUSE, _SINGLE, _JOINED, _FIRST))


def _is_past(word: str) -> bool:
    word = word.lower()
    return (word in PASTS and PASTS[word] != word) or word in PARTICIPLES.keys() - BASES or word.endswith("ed")


def _first_word(text: str) -> str:
    word = _WORD.match(text)
    return word[0].lower() if word else ""
