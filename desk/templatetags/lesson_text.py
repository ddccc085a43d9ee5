"""Filters for text written by machines."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from desk.shell.markdown import write_inline_code
from desk.shell.word_diff import DiffPart
from memory.projects.actors import describe_actor
from memory.redaction.visible_text import find_oddities, show_text

register = template.Library()


@register.filter
def visible(value: Any) -> str:
    """Show a text as models read it (see `show_text`). The result is still escaped by the template."""
    return show_text(str(value))


@register.filter
def inline_code(text: str) -> SafeString:
    """Write what stands between backticks as code, and escape all of it."""
    return write_inline_code(text)


@register.filter
def marked(text: str, words: Iterable[str] | None) -> SafeString:
    """Write a text as `inline_code` does, with the given words marked."""
    return write_inline_code(text, words=map(show_text, words or ()))


@register.filter
def condition(trigger: str) -> str:
    """Leave out the "When" of a trigger where the page has one of its own."""
    return trigger.removeprefix("When ").removeprefix("when ")


@register.filter
def arguments(value: dict[str, Any]) -> str:
    """Write a tool call's arguments as indented JSON; a lone `input` as its bare text."""
    if set(value) == {"input"}:
        return show_text(str(value["input"]))
    return show_text(json.dumps(value, ensure_ascii=False, indent=1)) if value else ""


@register.inclusion_tag("admin/oddities.html")
def oddities(*texts: Any) -> dict[str, Any]:
    """Warn of what is not what it looks like; parts of a comparison count with what they add."""
    words = [_read_added(text) if isinstance(text, list) else str(text) for text in texts]
    return {"oddities": find_oddities(*words)}


def _read_added(parts: list[DiffPart]) -> str:
    return "".join(part.text for part in parts if part.kind != "removed")


@register.filter
def folded(value: str, length: int) -> bool:
    """Tell whether a text is long enough to be folded."""
    return len(value) > length


@register.filter
def has_changes(parts: list[DiffPart]) -> bool:
    """Tell whether a text differs from what it is compared with."""
    return any(part.kind != "same" for part in parts)


@register.filter
def ago(at: datetime) -> str:
    """Say how long ago something was, in the largest unit."""
    duration = timesince(at, depth=1)
    return "just now" if duration.startswith("0") else f"{duration} ago"


@register.filter
def actor(label: Any) -> str:
    """Name who acted, from what the records hold."""
    return show_text(describe_actor(str(label)))


@register.filter
def spaced(code: Any) -> str:
    """Write a code such as unknown_tools as words."""
    return show_text(str(code)).replace("_", " ")
