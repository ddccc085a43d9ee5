"""The approved lessons of a task family, all of them: for reading, not for a task."""

from dataclasses import dataclass
from uuid import UUID

from memory.limits import DEFAULT_BUDGET_TOKENS
from memory.retrieval.context import Context, build_context
from memory.retrieval.database import read_prepared

MOST_LESSONS = 200

# Which lessons the filter `families` lets through. One for the whole project is of the families that it was learnt in,
# and of none only where it was learnt in none: that it sounds general does not make it everybody's.
OF_FAMILIES = """
    (cardinality(%(task_ids)s::text[]) = 0 OR {lesson}.task_id <> '' AND {lesson}.task_id = ANY(%(task_ids)s::text[])
    OR {lesson}.scope = 'project' AND EXISTS (
        SELECT FROM servable_evidence e JOIN servable_outcome o ON o.id = e.trajectory_id
        WHERE e.heuristic_id = {lesson}.heuristic_id AND o.task_id = ANY(%(task_ids)s::text[]))
    OR '' = ANY(%(task_ids)s::text[]) AND {lesson}.task_id = '' AND NOT EXISTS (
        SELECT FROM servable_evidence e JOIN servable_outcome o ON o.id = e.trajectory_id
        WHERE e.heuristic_id = {lesson}.heuristic_id AND o.task_id <> ''))
"""

# Where a project serves releases, only what the stable one has.
_STABLE = """NOT EXISTS (
    SELECT FROM memory_deployment d WHERE d.project_id = h.project_id AND d.mode = 'releases' AND NOT EXISTS (
        SELECT FROM servable_member k WHERE k.release_id = d.stable_id AND k.revision_id = h.id))"""

# A lesson for the whole project is also one of the families it was learnt in, as for the filter `families`.
_LESSONS = f"""
SELECT h.heuristic_id, h.trigger, h.guideline, h.avoid, h.not_when, count(*) OVER () FROM servable_heuristic h
WHERE h.project_id = %(project)s AND {_STABLE} AND (h.task_id = %(family)s OR h.scope = 'project' AND EXISTS (
    SELECT FROM servable_evidence e JOIN servable_outcome o ON o.id = e.trajectory_id
    WHERE e.heuristic_id = h.heuristic_id AND o.task_id = %(family)s))
ORDER BY h.usefulness DESC, h.support DESC, h.heuristic_id LIMIT %(limit)s
"""  # noqa: S608
_FAMILIES = """
SELECT task_id FROM servable_heuristic WHERE project_id = %(project)s AND task_id > %(after)s
UNION
SELECT o.task_id FROM servable_heuristic h
JOIN servable_evidence e ON e.heuristic_id = h.heuristic_id
JOIN servable_outcome o ON o.id = e.trajectory_id
WHERE h.project_id = %(project)s AND h.scope = 'project' AND o.task_id > %(after)s
ORDER BY task_id LIMIT %(limit)s
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
    context = build_context(lessons, budget_tokens=DEFAULT_BUDGET_TOKENS)
    return FamilyLessons(context=context, total=rows[0][-1] if rows else 0)


def list_families(project_id: UUID, *, after: str = "", limit: int) -> list[str]:
    """Return the task families that have served lessons, by name, from the one after `after` on."""
    rows = read_prepared(_FAMILIES, {"project": project_id, "after": after, "limit": limit})
    return [family for (family,) in rows]
