"""An answer against another: the same question asked again with other settings, or a later answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory.projects.actors import Actor
from memory.retrieval.answers import RetrievalAnswer, prepare_answer
from memory.retrieval.models import Retrieval
from memory.retrieval.question import Filters, Question

# Asking the language model costs money, so it is not tried here.
FREE_MODES = (Retrieval.Mode.HYBRID, Retrieval.Mode.EMBEDDING, Retrieval.Mode.LEXICAL, Retrieval.Mode.RANDOM)


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A lesson and its places in two answers, counted from 1; None where it is not in one."""

    heuristic_id: str
    before: int | None
    after: int | None

    @property
    def word(self) -> str:
        if self.before is None:
            return "added"
        if self.after is None:
            return "left out"
        if self.before == self.after:
            return "same place"
        return "up" if self.after < self.before else "down"


def ask_again(retrieval: Retrieval, *, mode: str, top_k: int, budget_tokens: int, by: Actor) -> RetrievalAnswer:
    """Answer the question of an earlier answer from the lessons of today. Nothing is written, so nothing is counted."""
    options = retrieval.options
    filters = Filters(
        tags=tuple(options.get("tags", ())),
        task_ids=tuple(options.get("families", ())),
        agents=tuple(options.get("source_agents", ())),
        polarities=tuple(options.get("polarities", ())),
    )
    question = Question(
        project=retrieval.project,
        task=retrieval.task,
        task_id=retrieval.task_id,
        agent=retrieval.agent,
        tools=tuple(options["tools"]) if "tools" in options else None,
        mode=mode,
        top_k=top_k,
        budget_tokens=budget_tokens,
        filters=filters,
        as_of=datetime.fromisoformat(options["as_of"]) if "as_of" in options else None,
        seed=options.get("seed"),
        record=options.get("record", True),
        by=by,
    )
    return prepare_answer(question).answer


def find_moves(before: Iterable[str], after: Iterable[str]) -> list[Move]:
    """Return every lesson of two answers with its places, in the order of the second, then those it leaves out."""
    old = {heuristic: position for position, heuristic in enumerate(before, 1)}
    new = {heuristic: position for position, heuristic in enumerate(after, 1)}
    return [
        Move(heuristic_id=heuristic, before=old.get(heuristic), after=new.get(heuristic))
        for heuristic in [*new, *(lesson for lesson in old if lesson not in new)]
    ]


def list_lessons(items: Iterable[dict[str, Any]], *, name: str) -> list[str]:
    """Return the ids of the lessons that were injected, in their order; `name` is the member with the id."""
    return [str(item[name]) for item in items if item["injected"]]
