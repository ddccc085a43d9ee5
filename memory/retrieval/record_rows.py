"""What the record of a task is made of: columns over the views that retrieval may read, for any statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory.projects.models import Project
from memory.redaction import redact
from memory.retrieval.context import Context
from memory.retrieval.database import read_prepared
from memory.retrieval.record import NO_MATERIAL, NO_RECORD, SCORED_RUNS, Material, build_record, read_material

RECORD_BUDGET_TOKENS = 200  # on top of the lessons; a project may have its own
_LIMIT = 50  # of each kind; more lines than any budget takes

# Newest approved rules first; cards of the family first, then by the count a reviewer confirmed: nothing that agents
# report changes the order. With an agent and without, so that each has the index it needs.
_COLUMNS = """
coalesce((
    SELECT jsonb_agg(jsonb_build_object('id', r.heuristic_id, 'trigger', r.trigger, 'guideline', r.guideline,
        'avoid', r.avoid, 'not_when', r.not_when, 'polarity', r.polarity, 'task_id', r.task_id,
        'of_project', r.scope = 'project') ORDER BY r.id DESC)
    FROM (SELECT * FROM servable_heuristic
          WHERE project_id = %(project)s AND tags @> '{{rule}}'
            AND (scope = 'project' OR task_id = %(task_id)s AND %(task_id)s <> '')
          ORDER BY id DESC LIMIT {limit}) r
), '[]'), coalesce((
    SELECT jsonb_agg(jsonb_build_object('id', c.card_id, 'mistake_type', c.mistake_type,
        'bad_decision', c.bad_decision, 'correct_decision', c.correct_decision, 'lesson', c.lesson,
        'seen_count', c.seen_count) ORDER BY c.task_id = '', c.ranked_count DESC, c.card_id)
    FROM (SELECT * FROM servable_mistake_card
          WHERE project_id = %(project)s AND task_id IN (%(task_id)s, '')
          ORDER BY task_id = '', ranked_count DESC, card_id LIMIT {limit}) c
), '[]'), coalesce((
    SELECT jsonb_agg(jsonb_build_array(o.outcome, o.score) ORDER BY o.created_at DESC, o.id DESC)
    FROM (SELECT outcome, score, created_at, id FROM servable_outcome
          WHERE project_id = %(project)s AND task_id = %(task_id)s AND %(task_id)s <> '' {agent}
            AND (score IS NOT NULL OR outcome <> 'unknown')
          ORDER BY created_at DESC, id DESC LIMIT {scored}) o
), '[]')
"""
_OF_ALL = _COLUMNS.format(limit=_LIMIT, scored=SCORED_RUNS, agent="")
_OF_AGENT = _COLUMNS.format(limit=_LIMIT, scored=SCORED_RUNS, agent="AND agent = %(agent)s")

_SHARE = 3  # of a budget the caller names, the record takes a third at most


@dataclass(kw_only=True, slots=True)
class RecordQuestion:
    """A question for the record of a task. Who asks the database something else first may ask it along."""

    project: Project
    parameters: dict[str, Any]
    budget_tokens: int
    material: Material | None = None

    @property
    def columns(self) -> str:
        """The columns that answer it, for any statement."""
        return _OF_AGENT if "agent" in self.parameters else _OF_ALL

    def take(self, columns: Sequence[Any]) -> None:
        """Take what the database answered."""
        self.material = read_material(columns)

    def find(self) -> Material:
        """Return the material, and ask for it alone if nobody did."""
        if self.material is None:
            (columns,) = read_prepared(f"SELECT {self.columns}", self.parameters)
            self.take(columns)
        return self.material or NO_MATERIAL


def ask_record(
    project: Project, *, task_id: str = "", agent: str = "", budget_tokens: int | None = None
) -> RecordQuestion | None:
    """Ask for what was approved for a task family and how its runs went: the agent's own where one is named.

    Args:
        budget_tokens: of the whole block the record is part of; None where only the record's own budget counts.

    Returns:
        None where the record has no room.
    """
    budget = RECORD_BUDGET_TOKENS if project.record_budget_tokens is None else project.record_budget_tokens
    if budget_tokens is not None:
        budget = min(budget, budget_tokens // _SHARE)
    if not budget:
        return None
    family = redact(task_id).value if task_id else ""  # as it was stored
    parameters = {"project": project.pk, "task_id": family} | ({"agent": agent} if agent else {})
    return RecordQuestion(project=project, parameters=parameters, budget_tokens=budget)


def write_record(question: RecordQuestion | None) -> Context:
    """Write the record that an agent of a project is given before a task of a family."""
    if question is None:
        return NO_RECORD
    return build_record(question.find(), budget_tokens=question.budget_tokens, sizes=question.project.record_sizes)
