"""What a project serves now, by name, and all else that a task needs to know first: one statement.

Triggers write a token for every change of what a project serves (`memory_servedchange`); the exclusive or of its tokens
names its state, with the moment at which a lesson last went out of service by itself. What a process remembers belongs
to a state and is used in no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from memory.retrieval.assignment import DEPLOYED_COLUMNS, Deployed
from memory.retrieval.database import read_prepared
from memory.retrieval.database_search import INDEX_FROM_TEXTS, UsableIndex, is_indexable
from memory.retrieval.scoring import fit_floors

_STATE = """
SELECT changed.whole # coalesce(hashtextextended(ended.ended_at::text, 0), 0), changed.texts, coalesce(m.id, ''),
    m.dimensions, m.floors,
    (SELECT jsonb_object_agg(task_id, jsonb_build_array(max_works_share, max_avoid_share))
     FROM memory_polarityquota WHERE project_id = %(project)s), {deployed}{more}
FROM (SELECT bit_xor(token) AS whole, bit_xor(token) FILTER (WHERE of_texts) AS texts
      FROM memory_servedchange WHERE project_id = %(project)s) AS changed
CROSS JOIN (SELECT max(ends_at) AS ended_at FROM servable_end
            WHERE project_id = %(project)s AND ends_at <= now()) AS ended
LEFT JOIN memory_embeddingmodel m ON m.active
LEFT JOIN memory_deployment d ON d.project_id = %(project)s
"""
_FOR_SEARCH = """, memory_query_vector(%(project)s, %(text)s), memory_language(%(text)s),
    coalesce((SELECT texts FROM memory_searchstatistics WHERE project_id = %(project)s), 0)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectState:
    """The state of a project: tokens of all that an answer says and of the texts that are searched, and the model.

    `quotas` are shares of works and avoid by task family, `record` the columns that were asked for besides, `deployed`
    what is deployed, and `release_id` the release that a search is limited to. `floors` are those of the model.
    `words`, those of the task with their weights, its `language` and `index` are for a search and are no part of the
    state.
    """

    whole: int | None
    texts: int | None
    model_id: str
    quotas: Mapping[str, Sequence[float | None]]
    floors: Mapping[str, float] | None = None
    language: str = field(default="english", compare=False)
    words: bytes | None = field(default=None, compare=False)
    index: UsableIndex | None = field(default=None, compare=False)
    record: Sequence[Any] = ()
    deployed: Deployed | None = None
    release_id: UUID | None = None

    @property
    def searched(self) -> tuple[int | None, str, UUID | None]:
        """The name of what is searched alone."""
        return self.texts, self.model_id, self.release_id


def read_state(
    project_id: UUID, *, task: str | None = None, columns: str = "", parameters: Mapping[str, Any] | None = None
) -> ProjectState:
    """Return the state of a project.

    Args:
        task: that is searched for; without one the state has no words and no index.
        columns: of the record, in SQL, with their `parameters`.
    """
    more = (_FOR_SEARCH if task is not None else "") + (f", {columns}" if columns else "")
    asked = {"project": project_id, "text": task, **(parameters or {})}
    statement = _STATE.format(deployed=DEPLOYED_COLUMNS, more=more)
    ((whole, texts, model_id, dimensions, floors, quotas, *rest),) = read_prepared(statement, asked)
    deployed, rest = rest[: len(Deployed._fields)], rest[len(Deployed._fields) :]
    # In the order of _FOR_SEARCH; what is left are the columns of the record.
    words, language, served = (rest.pop(0), rest.pop(0), rest.pop(0)) if task is not None else (None, "english", 0)
    is_large = served >= INDEX_FROM_TEXTS and is_indexable(model_id)
    return ProjectState(
        whole=whole,
        texts=texts,
        model_id=model_id,
        quotas=quotas or {},
        floors=fit_floors(floors, task or ""),
        language=language,
        words=words,
        index=UsableIndex(model_id, dimensions) if is_large else None,
        record=rest,
        deployed=Deployed(*deployed) if deployed[0] is not None else None,
    )
