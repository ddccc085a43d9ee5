"""Columns of lists and facts of rows under names of their own, with people, money and large numbers in words."""

import json
from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import display_for_value
from django.core.validators import EMPTY_VALUES
from django.urls import reverse
from django.utils.html import format_html

from memory.projects.actors import describe_actor
from memory.redaction.visible_text import show_text


def column(field: str, label: str, show: Callable[[Any], Any] = lambda value: value) -> Callable[[Any], Any]:
    """Return what shows a field of a row under a name of our own, in lists and among the facts of a row."""

    @admin.display(description=label, ordering=field)
    def shown(row: Any) -> str:
        value = getattr(row, field)
        return display_for_value(value if value in EMPTY_VALUES else show(value), admin.site.empty_value_display)

    shown.__name__ = field  # the class of the cells
    return shown


def link(field: str, label: str, show: Callable[[Any], Any] = lambda row: show_text(str(row))) -> Callable[[Any], Any]:
    """Return the column of another row, with a link to its page."""

    def draw(row: Any) -> Any:
        address = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
        return format_html('<a href="{}">{}</a>', address, show(row))

    return column(field, label, draw)


def who(field: str, label: str) -> Callable[[Any], Any]:
    """Return the column of who did something, from the label that is recorded."""
    return column(field, label, lambda label: show_text(describe_actor(label)))


def count(field: str, label: str) -> Callable[[Any], Any]:
    return column(field, label, "{:,}".format)


def words(field: str, label: str) -> Callable[[Any], Any]:
    """Return the column of a code such as key_insert, in words."""
    return column(field, label, lambda code: show_text(code).replace("_", " "))


def structure(field: str, label: str) -> Callable[[Any], Any]:
    """Return the column of JSON, indented."""
    return column(field, label, lambda value: format_html("<pre>{}</pre>", _indent(value)))


def money(field: str = "cost_usd", label: str = "cost") -> Callable[[Any], Any]:
    """Return the column of an amount of US dollars; cents are split where the amount is small."""
    return column(field, label, lambda usd: f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}")


def _indent(value: Any) -> str:
    return show_text(json.dumps(value, ensure_ascii=False, indent=1))
