"""The frame of every page of the admin: navigation, search and the choice of a project."""

import re
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

from desk.shell.chosen_project import chosen_project, offered_projects
from desk.shell.navigation import build_navigation

register = template.Library()

_TAG = re.compile("<(td|th)(?= |>)")


@register.simple_tag(takes_context=True)
def shell(context: template.Context) -> dict[str, Any]:
    """Return what the frame shows to the signed-in person."""
    request = context["request"]
    sections = build_navigation(request, context.get("available_apps"), here=context.get("page_of") or "")
    return {
        "sections": sections,
        "section": next((section for section in sections if section.current), None),
        "projects": offered_projects(request),
        "project": chosen_project(request),
    }


@register.simple_tag(takes_context=True)
def list_heading(context: template.Context) -> str:
    """Return what the navigation calls the present list, else what its model is called."""
    sections = build_navigation(context["request"], context.get("available_apps"))
    opts = context["cl"].opts
    table = f"{opts.app_label}_{opts.model_name}"
    labels = (page.label for section in sections for page in section.pages if page.table == table)
    return next(labels, capfirst(opts.verbose_name_plural))


@register.filter
def active_filters(changelist: Any) -> list[str]:
    """Return what each filter in use is set to."""
    settings = []
    for spec in changelist.filter_specs:
        choices = list(spec.choices(changelist))
        # The first choice is always “All”.
        chosen = [choice for choice in choices[1:] if choice.get("selected")]
        settings += [f"{spec.title}: {choice['display']}" for choice in chosen[:1]]
    return settings


@register.filter
def label_cells(cells: Any, headers: Any) -> list[SafeString]:
    """Name each cell of a row by its column, for screens on which a row is a card. The cells are the admin's HTML."""
    labelled = []
    for cell, header in zip(cells, headers, strict=False):
        tag = _TAG.match(cell)
        # The column of boxes to tick needs no name.
        if tag is not None and "<input" not in cell:
            opening = format_html('{} data-label="{}"', mark_safe(tag.group()), capfirst(str(header["text"])))  # noqa: S308 - <td or <th
            cell = mark_safe(opening + cell[tag.end() :])  # noqa: S308 - the admin made the rest
        labelled.append(cell)
    return labelled
