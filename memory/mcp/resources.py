"""The resource `erl://lessons/{family}`: all approved lessons of a task family, to read before planning."""

from typing import Any
from urllib.parse import quote, unquote

from memory.limits import MAX_NAME_CHARS
from memory.mcp.protocol import INVALID_PARAMS, ProtocolError
from memory.projects.models import Project
from memory.retrieval.families import list_families, read_family
from memory.retrieval.safe_text import clean

_ROOT = "erl://lessons/"
MIME_TYPE = "text/plain"
PAGE_ROWS = 100
TEMPLATE = {
    "uriTemplate": f"{_ROOT}{{family}}",
    "name": "lessons",
    "title": "Lessons of a task family",
    "description": "The approved lessons of a task family, the most useful first, as far as they fit the budget. For a "
    "task at hand call get_lessons: it chooses what applies, and only what it gives is measured.",
    "mimeType": MIME_TYPE,
}


def list_resources(project: Project, params: dict[str, Any]) -> dict[str, Any]:
    """Return a page of the task families that have approved lessons. The cursor is the last family of the page."""
    after = params.get("cursor", "")
    if not isinstance(after, str):
        raise ProtocolError(INVALID_PARAMS, "params.cursor: Send the nextCursor of the previous page.")
    families = list_families(project.pk, after=after, limit=PAGE_ROWS)
    resources = [
        {"uri": f"{_ROOT}{quote(family, safe='')}", "name": clean(family), "mimeType": MIME_TYPE} for family in families
    ]
    return {"resources": resources} | ({"nextCursor": families[-1]} if len(families) == PAGE_ROWS else {})


def read_resource(project: Project, params: dict[str, Any]) -> dict[str, Any]:
    """Return the lessons of the family that the address names."""
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise ProtocolError(INVALID_PARAMS, "params.uri: Say what to read, such as erl://lessons/airline.")
    family = unquote(uri.removeprefix(_ROOT)) if uri.startswith(_ROOT) else ""
    if not family or len(family) > MAX_NAME_CHARS or "\x00" in family:
        raise ProtocolError(INVALID_PARAMS, f"There is no such resource. Addresses are {_ROOT}{{family}}.")
    lessons = read_family(project.pk, family)
    if not lessons.total:
        raise ProtocolError(INVALID_PARAMS, f"This project has no approved lessons for the task family {family!r}.")
    text, shown = lessons.context.text, len(lessons.context.ids)
    if shown < lessons.total:
        text = (
            f"{text}\n{shown} of {lessons.total} lessons fit. get_lessons chooses those that apply to a task.".lstrip()
        )
    return {"contents": [{"uri": uri, "mimeType": MIME_TYPE, "text": text}]}
