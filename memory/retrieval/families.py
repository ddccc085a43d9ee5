"""The approved lessons of a task family, all of them: for reading, not for a task."""

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from memory.retrieval.context import Context, build_context
from memory.retrieval.database import read_prepared

MOST_LESSONS = 200

_LESSONS = """
SELECT heuristic_id, trigger, guideline, avoid, not_when, count(*) OVER () FROM servable_heuristic
WHERE project_id = %(project)s AND task_id = %(family)s
ORDER BY usefulness DESC, support DESC, heuristic_id LIMIT %(limit)s
"""
_FAMILIES = """
SELECT DISTINCT task_id FROM servable_heuristic
WHERE project_id = %(project)s AND task_id > %(after)s ORDER BY task_id LIMIT %(limit)s
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyLessons:
    """The block with the lessons of a family that fit the budget, the most useful first, and how many there are."""

    context: Context
    total: int


def read_family(project_id: UUID, family: str) -> FamilyLessons:
    """Return the served lessons of a task family as a context block; its text is empty where there are none."""
    rows = read_prepared(_LESSONS, {"project": project_id, "family": family, "limit": MOST_LESSONS})
    names = ("id", "trigger", "guideline", "avoid", "not_when")
    lessons = [dict(zip(names, row[:-1], strict=True)) for row in rows]
    context = build_context(lessons, budget_tokens=settings.ERL_CONTEXT_BUDGET_TOKENS)
    return FamilyLessons(context=context, total=rows[0][-1] if rows else 0)


def list_families(project_id: UUID, *, after: str = "", limit: int) -> list[str]:
    """Return the task families that have served lessons, by name, from the one after `after` on."""
    rows = read_prepared(_FAMILIES, {"project": project_id, "after": after, "limit": limit})
    return [family for (family,) in rows]
