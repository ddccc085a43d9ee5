"""Filters for text written by machines."""

import json
from typing import Any

from django import template

from memory.redaction.visible_text import show_hidden

register = template.Library()


@register.filter
def visible(value: Any) -> str:
    """Show hidden characters by their code points. The result is still escaped by the template."""
    return show_hidden(str(value))


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
