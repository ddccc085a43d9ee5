"""A small part of Markdown as HTML, for texts that machines wrote: everything is escaped, and there are no links.

Headings, lists, fenced code, code in backticks and bold; all else stays as it is, with its line breaks.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

MAX_JSON_CHARS = 60_000
_INLINE = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*")
# A text that was cut may have lost the second backtick.
_CODE = re.compile(r"`([^`\n]+?)(?:`|(?<=…)\Z)")
_HEADING = re.compile(r"#{1,6} +(\S.*)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)]) +(\S.*)")
_LOOKS_MARKED = re.compile(r"^#{1,6} +\S|^```|^[ \t]*[-*+] +\S|\*\*[^*\n]+\*\*|`[^`\n]+`", re.MULTILINE)


def write_inline_code(text: str, *, words: Iterable[str] = ()) -> SafeString:
    """Write what is between backticks as code, mark the given words, and escape everything."""
    # The longest first: of two words, one may be the beginning of the other.
    sought = sorted({word for word in words if word.strip()}, key=len, reverse=True)
    either = re.compile("|".join(map(re.escape, sought)), re.I) if sought else None
    parts = enumerate(_CODE.split(text))  # every second one stood between backticks
    marked = ((n, _mark(part, either)) for n, part in parts)
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if n % 2 else part,) for n, part in marked)
    )


def _mark(text: str, either: re.Pattern[str] | None) -> str | SafeString:
    if either is None:
        return text
    parts = zip_longest(either.split(text), either.findall(text), fillvalue="")
    return format_html_join(
        "", "{}{}", ((plain, format_html("<mark>{}</mark>", word) if word else "") for plain, word in parts)
    )


def looks_marked(text: str) -> bool:
    """Tell whether a text contains any of this Markdown."""
    return _LOOKS_MARKED.search(text) is not None


def indent_json(text: str) -> str:
    """Return a JSON object or list with its lines indented; "" for any other text."""
    if not text.lstrip().startswith(("{", "[")) or len(text) > MAX_JSON_CHARS:
        return ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return json.dumps(value, ensure_ascii=False, indent=1)


def render_markdown(text: str) -> SafeString:
    """Return a text as HTML."""
    return format_html_join("", "{}", ((block,) for block in _blocks(text.split("\n"))))


def _blocks(lines: list[str]) -> Iterator[SafeString]:
    plain: list[str] = []
    items: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        heading, item = _HEADING.fullmatch(line), _ITEM.fullmatch(line)
        if plain and (heading or item or line.startswith("```")):
            yield _paragraph(plain)
            plain = []
        if items and not item:
            yield _list(items)
            items = []
        if line.startswith("```"):
            # A fence that nothing closes goes on to the end.
            end = next((at for at in range(number, len(lines)) if lines[at].startswith("```")), len(lines))
            yield format_html("<pre><code>{}</code></pre>", "\n".join(lines[number:end]))
            number = end + 1
        elif heading:
            yield format_html('<p class="marked-heading">{}</p>', _inline(heading[1]))
        elif item:
            items.append(item[1])
        else:
            plain.append(line)
    if plain:
        yield _paragraph(plain)
    if items:
        yield _list(items)


def _paragraph(lines: list[str]) -> SafeString:
    text = "\n".join(lines).strip("\n")
    return format_html("<p>{}</p>", _inline(text)) if text else SafeString("")


def _list(items: list[str]) -> SafeString:
    return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((_inline(item),) for item in items)))


def _inline(text: str) -> SafeString:
    parts, start = [], 0
    for match in _INLINE.finditer(text):
        parts.append(format_html("{}", text[start : match.start()]))
        code, strong = match.groups()
        parts.append(format_html("<code>{}</code>", code) if code else format_html("<strong>{}</strong>", strong))
        start = match.end()
    parts.append(format_html("{}", text[start:]))
    return format_html_join("", "{}", ((part,) for part in parts))
