"""Pages that offer labels in brackets, as text interfaces do: `[Back] [Buy]`, or `size [small][large]` for a group."""

import re
from dataclasses import dataclass
from functools import cached_property

from reflection.reflectors.rules.run_view import Call, RunView

_LABEL = re.compile(r"\[([^\[\]\n]{1,200})\]")
_GROUP = re.compile(r"^[ \t]*([A-Za-z][\w /&-]{0,40}?)[ :]+((?:\[[^\[\]\n]*\][ \t]*){2,})$", re.MULTILINE)
_SPLIT = re.compile(r"[a-z]+|\d+(?:\.\d+)?", re.IGNORECASE)
_STOP_WORDS = """
a about all also am an and another any anything are as at be been below both budget but buy by can cheaper
choose color colour come could do dollar dollars each either find for from get give go has have help helps how
i if im in into is it item just kind let like look looking lower made make me more my need nice not of off on
one only or other our out please prefer price prices product put search searching see should show size so some
something suitable than that the their them then there these they this to too under up us use used using want
was we what when where which who will with would you your
"""
_STOP = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page the agent had before it, from the answer of the call at step `index`."""

    index: int
    text: str

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return tuple(label.strip() for label in _LABEL.findall(self.text))

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Options of which one is to be chosen, by the name of their group."""
        return {
            match[1].strip(): tuple(label.strip() for label in _LABEL.findall(match[2]))
            for match in _GROUP.finditer(self.text)
        }


@dataclass(frozen=True, kw_only=True)
class Press:
    """A call that named a label, with the page it was made on."""

    call: Call
    label: str
    page: Page

    @property
    def offered(self) -> bool:
        return self.label in self.page.labels


def find_presses(run: RunView) -> tuple[Press, ...]:
    """Return the calls of label-taking tools. Empty for runs whose pages offer no labels."""
    presses: list[Press] = []
    page: Page | None = None
    for call in run.calls:
        label = _only_text(call)
        if page and label:
            presses.append(Press(call=call, label=label, page=page))
        if call.error is None:
            shown = Page(index=call.index, text=call.answer)
            page = shown if len(shown.labels) >= 2 else page
    tools = {press.call.name for press in presses if press.offered and press.call.error is None}
    return tuple(press for press in presses if press.call.name in tools)


def content_words(text: str) -> frozenset[str]:
    """Return the words that carry meaning, in lower case and in the singular; numbers count as words."""
    words = (word.lower() for word in _SPLIT.findall(text))
    return frozenset(_singular(word) for word in words if word not in _STOP and (len(word) > 1 or word.isdigit()))


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _only_text(call: Call) -> str:
    values = list(call.arguments.values())
    return values[0].strip() if len(values) == 1 and isinstance(values[0], str) else ""
