"""How the form of an argument's value changed between two calls, in words without the values."""

import re
from typing import Any

from reflection.reflectors.rules.wording import listed

MIN_ENUMERATED_CHARS = 2
MAX_ENUMERATED = 8

_FORMS = {
    re.compile(r"\d{4}-\d\d-\d\d"): "as a date in the form YYYY-MM-DD",
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d.*"): "as a time in the form YYYY-MM-DDThh:mm:ss",
    re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"): "as a time in the form YYYY-MM-DD hh:mm",
    re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"): "as a time in the form YYYY-MM-DD hh:mm:ss",
    re.compile(r"\d{1,2}/\d{1,2}/\d{2,4}"): "as a date with slashes",
    re.compile(r"\d{1,2}\.\d{1,2}\.\d{2,4}"): "as a date with dots",
    re.compile(r"\d{1,2}:\d\d(:\d\d)?"): "as a time in the form hh:mm",
    re.compile(r"[^@\s]{1,128}@[^@\s]{1,128}\.\w+"): "as an e-mail address",
    re.compile(r"[A-Z]{2,5}"): "as a short code in capitals",
}


_SCHEMA_TYPES = {
    "list": "as a list, even for a single entry",
    "array": "as a list, even for a single entry",
    "string": "as a single text",
    "integer": "as a whole number",
    "number": "as a number",
    "boolean": "as true or false",
    "dictionary": "as an object with named members",
    "dict": "as an object with named members",
    "object": "as an object with named members",
    "date": "as a date in the form YYYY-MM-DD",
}


# Values in a row, after a colon: "Options are: economy, business, first."
_LISTING = re.compile(r":\s*([A-Za-z_-]+(?:(?:, (?:or |and )?| or | and )[A-Za-z_-]+)+)\s*(?:[.;]|$)", re.MULTILINE)
_ABOUT_A_MATCH = re.compile(r"\b(?:not found|no such|no match|match|find|contain|appear|unknown|exist)", re.IGNORECASE)
_OR = re.compile(r"\b(?:or|and)\b")
_DIRECTIVES = {"%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "hh", "%M": "mm", "%S": "ss"}


def change_of_form(old: tuple[Any, ...], new: tuple[Any, ...], *, error: str) -> str:
    """Return how to give a value, such as "as a date in the form YYYY-MM-DD, not as a date with slashes".

    Returns "" if the values differ in more than their form.
    """
    first, second = old[0], new[0]
    if isinstance(first, str) != isinstance(second, str):
        return "as a text, not as a number" if isinstance(second, str) else "as a number, not as a text"
    if not isinstance(first, str):
        return ""
    # Code with other spaces is other code; only a text that has to match one can differ in nothing but its spaces.
    if "".join(first.split()) == "".join(second.split()) and not _ABOUT_A_MATCH.search(error):
        return ""
    if words := relation(first, second):
        return words
    before, after = form_of(first), form_of(second)
    if after and before != after and _is_plain(first):
        return after + (f", not {before}" if before else "")
    if len(second) >= MIN_ENUMERATED_CHARS and _is_listed(second, error) and not _is_listed(first, error):
        return _listed_values(second, error)
    return ""


def form_of_schema(message: str) -> str:
    """Return how to give a value that a schema's message asks for, or ""."""
    match = re.search(r"valid (?!input)(\w+)|\b[Ee]xpected (?:an? )?(\w+), (?:received|but got)\b", message)
    if match:
        return _SCHEMA_TYPES.get(match[1] or match[2], "")
    choices = re.findall(r"'([a-z_-]{1,16})'", message) if re.search(r"\b(?:should|must) be\b", message) else []
    return (
        "as " + listed([f'"{choice}"' for choice in choices], last="or") if 1 < len(choices) <= MAX_ENUMERATED else ""
    )


def form_of_format(message: str) -> str:
    """Return how to give a time that did not match a format the message spells out: `%Y-%m-%d`, or ""."""
    match = re.search(r"does not match format ['\"]([^'\"]+)['\"]", message)
    if not match:
        return ""
    form = re.sub(r"%[A-Za-z]", lambda part: _DIRECTIVES.get(part[0], "?"), match[1])
    kind = "time" if "hh" in form else "date"
    return f"as a {kind} in the form {form}" if re.fullmatch(r"[YMDhms:/. -]+T?[hms:]*", form) else ""


def fault_of(value: Any) -> tuple[object, ...]:
    """Return the features of a value that an error about its form can be about, to compare it with another."""
    if not isinstance(value, str):
        return (type(value).__name__,)
    marks = re.match(r"[#@$./~]*", value)
    case = "upper" if value.isupper() else "lower" if value.islower() else "mixed"
    return "text", form_of(value), marks[0] if marks else "", "/" in value.lstrip("./"), value.isdigit(), case


def relation(first: str, second: str) -> str:
    """Describe a new value that consists of the old one and something else."""
    if first == second:
        return ""
    if first.lower() == second.lower():
        if second.isupper() or second.islower():
            return "in capital letters" if second.isupper() else "in lower case"
        if second in (first.capitalize(), first.title()):
            return "with a capital first letter"
        return "in exactly the letter case in which the tools return it"
    if "".join(first.split()) == "".join(second.split()):
        return "with exactly the same spaces as the text it refers to"
    for short, long, words in (
        (first, second, ("with {} in front", "with {} at its end")),
        (second, first, ("without {} in front", "without {} at its end")),
    ):
        rest = long.replace(short, "", 1)
        if short not in long or not re.fullmatch(r"[#@$/.~]{1,2}", rest):
            continue
        return words[0 if long.endswith(short) else 1].format(f'"{rest}"')
    if "/" in first and first.rstrip("/").rpartition("/")[2] == second:
        return "as a bare name, without its folder"
    if "/" in second and second.rstrip("/").rpartition("/")[2] == first:
        return "with its folder, not as a bare name"
    if re.fullmatch(rf"{re.escape(first)}\.\w{{1,5}}", second):
        return "with the file's extension"
    return ""


def _listed_values(value: str, error: str) -> str:
    """Name the values that an error allows, or say that it lists them."""
    listing = _LISTING.search(error)
    words = re.findall(r"[A-Za-z_-]+", _OR.sub(",", listing[1])) if listing else []
    allowed = list(dict.fromkeys(re.findall(r"['\"`]([A-Za-z_-]+)['\"`]", error) or words))
    if value not in allowed or not 1 < len(allowed) <= MAX_ENUMERATED:
        return "as one of the values that the error lists"
    return "as " + listed([f'"{word}"' for word in sorted(allowed)], last="or")


def form_of(text: str) -> str:
    """Return the form of a value in words, such as "as a date in the form YYYY-MM-DD", or ""."""
    return next((form for pattern, form in _FORMS.items() if pattern.fullmatch(text)), "")


def _is_plain(text: str) -> bool:
    """Return whether a text is short enough to be one value rather than prose."""
    return len(text) <= 40


def _is_listed(value: str, error: str) -> bool:
    """Return whether an error enumerates the value among others: "must be one of: low, high"."""
    if not re.search(
        r"one of|allowed|options?|choices?|valid \w+ (?:are|is)|available|permitted|expected", error, re.I
    ):
        return False
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", error) is not None
