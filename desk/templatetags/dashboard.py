"""The admin's first page."""

from typing import Any

from django import template

from desk.pages.home import home_context

register = template.Library()


@register.inclusion_tag("admin/dashboard.html", takes_context=True)
def dashboard(context: template.Context) -> dict[str, Any]:
    """Show what the signed-in person may see."""
    request = context["request"]
    return {**home_context(request), "user": request.user}
