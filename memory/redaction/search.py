"""Find all secrets of a text in one pass."""

import re
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import itemgetter

from memory.redaction import formats, labels, numbers
from memory.redaction.spans import SEPARATOR, TAKEN, SecretSpan, View, blot, view

_RULES = (*formats.RULES, *labels.RULES, *numbers.RULES)  # of two that start together the first names the kind

_BORDERS = {SEPARATOR, TAKEN}
# Characters that are written as something else: %40, &#64;, &quot;, \u0040
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})|\\u00([0-7][0-9A-Fa-f])|&#(\d{2,3});|&(quot|amp|lt|gt|apos);")
_CHARACTER = re.compile(_ESCAPED.pattern + r"|[\s\S]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NAMED = {"quot": '"', "amp": "&", "lt": "<", "gt": ">", "apos": "'"}
_ESCAPES = (
    re.compile(rb"%[0-9A-Fa-f]{2}"),
    re.compile(rb"\\u00[0-7][0-9A-Fa-f]"),
    re.compile(rb"&(?:#\d|quot|amp|lt|gt|apos)"),
)
_RUN = re.compile(r"[^\s\"<>]{1,4096}+")
_LOOK_BACK = 256  # the longest part of a run before its first escaped character
# Text in base64: the first of each four characters says that a byte is ASCII
_BASE64 = re.compile(rb"(?<![A-Za-z0-9+/_-])(?:[A-Za-f][A-Za-z0-9+/_-]{3}){4}[A-Za-z0-9+/_-]*+={0,2}")
_BASE64_RUN = b"a" * 16
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def find_secrets(text: str) -> list[SecretSpan]:
    """Find all secrets in `text`, in order and without overlaps. Looks at each character a bounded number of times."""
    shown = view(text)
    candidates = _find(shown)
    spans = _resolve(shown, candidates)
    if any(_read_escaped(shown)):
        # What was found is hidden, so that decoding does not find it a second time.
        left = blot(shown, spans)
        candidates += _find_encoded(left, [*_read_escaped(left)])
        spans = _resolve(shown, candidates)
    if runs := [*_read_base64(shown, spans)]:
        candidates += _find_encoded(shown, runs)
        spans = _resolve(shown, candidates)
    return spans


def _find(shown: View) -> list[SecretSpan]:
    spans = []
    for form, anchor, read in _RULES:
        text: bytes = getattr(shown, form)
        step = (len(anchor) + 1) // 2
        start = end = 0  # of the last secret
        position = text.find(anchor)
        while position >= 0:
            if start <= position < end:
                position = text.find(anchor, end)
                continue
            if span := read(shown, position):
                spans.append(span)
                if span.free:
                    start, end, _, _ = span
            position = text.find(anchor, position + step)
    return spans


def _find_encoded(shown: View, runs: list[tuple[int, int, str]]) -> list[SecretSpan]:
    """Find the secrets in encoded runs by what they say, one level deep."""
    decoded = view(SEPARATOR.join(text for _, _, text in runs))
    starts = [0, *accumulate(len(text) + 1 for _, _, text in runs)]
    spans = []
    read, places = -1, [0]
    for span in _find(decoded):
        if not _BORDERS.isdisjoint(decoded.text[span.start : span.end]):
            continue
        number = bisect_right(starts, span.start) - 1
        begin, end, _ = runs[number]
        if _ESCAPED.search(shown.text, begin, end):
            if number != read:
                read, places = number, [sign.start() for sign in _CHARACTER.finditer(shown.text, begin, end)] + [end]
            begin, end = places[span.start - starts[number]], places[span.end - starts[number]]
        spans.append(SecretSpan(begin, end, span.kind, span.free))
    return spans


def _read_escaped(shown: View) -> Iterator[tuple[int, int, str]]:
    """Yield runs with escaped characters: start, end, and what they say."""
    text, done = shown.text, 0
    for position in sorted(match.start() for mark in _ESCAPES for match in mark.finditer(shown.raw)):
        if position < done or not _ESCAPED.match(text, position):
            continue
        begin = max(done, position - _LOOK_BACK)
        begin += 1 + max(map(text[begin:position].rfind, ' \t\n"<>'))
        if not (run := _RUN.match(text, position)):
            continue
        done = run.end()
        yield begin, done, _ESCAPED.sub(_unescape, text[begin:done])


def _unescape(found: re.Match[str]) -> str:
    percent, backslash, decimal, name = found.groups()
    if name:
        return _NAMED[name]
    return chr(int(decimal) if decimal else int(percent or backslash, 16))


def _read_base64(shown: View, spans: list[SecretSpan]) -> Iterator[tuple[int, int, str]]:
    """Yield runs of base64 up to the next of the spans that say a text: start, end, and the text."""
    starts = [span.start for span in spans]
    done = 0
    while (position := shown.words.find(_BASE64_RUN, done)) >= 0:
        done = position + len(_BASE64_RUN)
        following = bisect_right(starts, position)
        if following and spans[following - 1].end > position:
            continue
        limit = starts[following] if following < len(starts) else len(shown.raw)
        if not (run := _BASE64.match(shown.raw, position, limit)):
            continue
        done = run.end()
        code = run[0].rstrip(b"=").translate(_URL_SAFE)
        try:
            # One character left over says less than a byte, so it is cut. Padding that is too long is ignored.
            text = a2b_base64(code[: len(code) - (len(code) % 4 == 1)] + b"==").decode()
        except ValueError:
            continue
        if not _CONTROL.search(text):
            yield run.start(), done, text


def _resolve(shown: View, spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Order the spans, join those that overlap, and drop those that cross a border or only continue a word."""
    result: list[SecretSpan] = []
    end = 0
    for span in sorted(spans, key=itemgetter(0)):
        if not _BORDERS.isdisjoint(shown.text[span.start : span.end]):
            continue
        # What comes before a continued word is gone if it is redacted itself.
        if not span.free and not (span.start == end or (span.start == end + 1 and shown.text[end] in ".,-")):
            continue
        if span.start >= end:
            result.append(span)
        elif span.end > end:
            result[-1] = result[-1]._replace(end=span.end)
        end = max(end, span.end)
    return result
