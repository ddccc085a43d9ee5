"""What a tool does, guessed from its name: talk, think, read, change something, or hand over."""

import re
from functools import lru_cache

_TALK_WORDS = """
respond reply say speak answer tell ask talk message_user ask_user send_message_to_user
"""
_READ_WORDS = """
get list search find look lookup fetch read query check show view describe retrieve calculate compute count
inspect load scan browse select explain examine estimate convert
"""
_CHANGE_WORDS = """
update book cancel create delete remove add send set modify change buy pay purchase post put write submit
order move edit refund issue approve assign close insert upload deploy restart reserve return exchange rename
replace reset
"""
TALK = frozenset(_TALK_WORDS.split())
THINK = frozenset({"think", "thought", "reason", "plan", "note_to_self"})

_READ = frozenset(_READ_WORDS.split())
_CHANGE = frozenset(_CHANGE_WORDS.split())
_EDIT = frozenset(["edit", "write", "patch", "replace", "insert", "create", "append"])
_FILES = frozenset(["file", "files", "text", "patch", "edit", "notebook", "str", "multi", "apply", "editor", "content"])
_HARM_WORDS = """
delete remove cancel pay buy purchase send transfer refund drop approve force override disable bypass grant share
withdraw fund deposit charge order book reserve reset wipe kill ban block publish post submit stop invite
"""
_HARM = frozenset(_HARM_WORDS.split())
_IRREVERSIBLE_WORDS = """
delete remove cancel pay buy purchase transfer refund drop force override disable bypass grant withdraw fund deposit
charge reset wipe kill ban block order money payment transaction funds password
"""
_IRREVERSIBLE = frozenset(_IRREVERSIBLE_WORDS.split())
# Words that are nouns before one of the second group: `refund_code` and `order_status` are looked up, not done.
_NOUNS_TOO = frozenset(
    ["refund", "order", "return", "exchange", "purchase", "payment", "transfer", "charge", "deposit"]
)
_INFORMATION = frozenset(["code", "codes", "status", "info", "details", "history", "number", "price", "cost", "fee"])
_HANDOVER_VERBS = frozenset(["transfer", "escalate", "handoff", "handover", "forward", "hand"])
_PEOPLE = frozenset(["human", "humans", "agent", "agents", "operator", "support", "person", "supervisor", "staff"])
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a tool's or parameter's name: `getUser_details` → get, user, details."""
    return tuple(word.lower() for word in _WORDS.findall(name))


def is_talk(name: str) -> bool:
    return name.lower() in TALK


def is_thought(name: str) -> bool:
    return name.lower() in THINK


def is_handover(name: str) -> bool:
    words = words_of(name)
    return bool(_HANDOVER_VERBS & set(words)) and bool(_PEOPLE & set(words))


def is_read(name: str) -> bool:
    """Return whether the tool only reads or calculates, judging by the first verb in its name."""
    return _first_verb(name) == "read" or _is_thing(name)


def is_change(name: str) -> bool:
    """Return whether the tool changes something outside the agent."""
    return _first_verb(name) == "change" and not is_handover(name) and not _is_thing(name)


def is_edit(name: str) -> bool:
    """Return whether the tool changes the text of files: `Edit`, `apply_patch`, `write_file`."""
    words = set(words_of(name))
    return bool(words & _EDIT) and (len(words) == 1 or bool(words & _FILES))


def is_harmful(name: str) -> bool:
    """Return whether a tool spends, deletes, sends or grants something: a lesson never says to call it."""
    return (not _HARM.isdisjoint(words_of(name)) and not _is_thing(name)) or is_handover(name)


def is_irreversible(name: str) -> bool:
    """Return whether a tool takes money or takes things away, so that no lesson should say to call it."""
    return not _IRREVERSIBLE.isdisjoint(words_of(name)) or is_handover(name)


def _is_thing(name: str) -> bool:
    """Return whether a name without a verb says what is looked up."""
    words = words_of(name)
    return len(words) > 1 and words[0] in _NOUNS_TOO and words[-1] in _INFORMATION


def _first_verb(name: str) -> str:
    for word in words_of(name):
        if word in _READ:
            return "read"
        if word in _CHANGE:
            return "change"
    return ""
