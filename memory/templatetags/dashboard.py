"""The reviewer's numbers on the admin's first page."""

from typing import Any

from django import template

from memory.admin.home import dashboard_context

register = template.Library()


@register.inclusion_tag("admin/dashboard.html", takes_context=True)
def dashboard(context: template.Context) -> dict[str, Any]:
    """Show what the signed-in user may see."""
    return dashboard_context(context["request"].user)
