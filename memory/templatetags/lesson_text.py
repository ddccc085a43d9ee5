"""Filters for text written by machines."""

import json
import re
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memory.redaction.visible_text import show_hidden

register = template.Library()
_CODE = re.compile(r"`([^`\n]+)`")


@register.filter
def visible(value: Any) -> str:
    """Show hidden characters by their code points. The result is still escaped by the template."""
    return show_hidden(str(value))


@register.filter
def inline_code(text: str) -> SafeString:
    """Write what stands between backticks as code, and escape all of it."""
    parts = enumerate(_CODE.split(text))  # every second one stood between backticks
    return format_html_join("", "{}", ((format_html("<code>{}</code>", part) if n % 2 else part,) for n, part in parts))


@register.filter
def condition(trigger: str) -> str:
    """Leave out the "When" of a trigger where the page has one of its own."""
    return trigger.removeprefix("When ").removeprefix("when ")


@register.filter
def arguments(value: dict[str, Any]) -> str:
    """Write a tool call's arguments as indented JSON; a lone `input` as its bare text."""
    if set(value) == {"input"}:
        return show_hidden(str(value["input"]))
    return show_hidden(json.dumps(value, ensure_ascii=False, indent=1)) if value else ""


@register.filter
def folded(value: str, length: int) -> bool:
    """Tell whether a text is long enough to be folded."""
    return len(value) > length
