"""The frame of every page of the admin: navigation, search and the choice of a project."""

from typing import Any

from django import template

from memory.admin.chosen_project import chosen_project, offered_projects
from memory.admin.navigation import build_navigation

register = template.Library()


@register.simple_tag(takes_context=True)
def shell(context: template.Context) -> dict[str, Any]:
    """Return what the frame shows to the signed-in person."""
    request = context["request"]
    sections = build_navigation(request)
    return {
        "sections": sections,
        "section": next((section for section in sections if section.current), None),
        "projects": offered_projects(request),
        "project": chosen_project(request),
    }
