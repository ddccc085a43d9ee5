"""Work out what two releases answer to a request that was answered before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from memory.projects.actors import Actor
from memory.releases.manifest import index_lessons
from memory.releases.models import Release
from memory.retrieval.answers import prepare_answer
from memory.retrieval.assignment import ReleaseSettings, read_release_settings
from memory.retrieval.context import count_tokens
from memory.retrieval.models import Retrieval
from memory.retrieval.question import Filters, Question
from runtime.models.changes import ComparisonVerdict, EvaluationRow, RowKind

SHADOW = Actor.policy("shadow")
COMPARABLE = frozenset({Retrieval.Mode.EMBEDDING, Retrieval.Mode.LEXICAL, Retrieval.Mode.HYBRID})
_Given = list[tuple[UUID, str]]  # lessons and the hashes of their wordings


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Two releases of a project, and the wordings that each has of its lessons."""

    stable: Release
    candidate: Release
    stable_wordings: Mapping[UUID, tuple[UUID, str]]
    candidate_wordings: Mapping[UUID, tuple[UUID, str]]

    @classmethod
    def of(cls, stable: Release, candidate: Release) -> "Compared":
        return cls(
            stable=stable,
            candidate=candidate,
            stable_wordings=index_lessons(stable.manifest),
            candidate_wordings=index_lessons(candidate.manifest),
        )


def compare_answers(retrieval: Retrieval, releases: Compared) -> EvaluationRow | None:
    """Answer a request again from both releases, and return what differs; None where that cannot be compared.

    Both answers are made now, so that what changed since the request is in both. Nothing is written, and no answer
    reaches an agent. Services may be asked over the network: call it with no transaction open.
    """
    used = read_release_settings(retrieval.release_id) if retrieval.release_id else None
    modes = {retrieval.requested_mode, read_release_settings(releases.candidate.pk).mode}
    # The other modes draw at random or ask a model, so their answers differ from call to call.
    if used is None or not modes <= COMPARABLE:
        return None
    question = _ask_again(retrieval, used)
    stable = _answer(question, releases.stable, releases.stable_wordings)
    candidate = _answer(question, releases.candidate, releases.candidate_wordings)
    if stable is None or candidate is None:
        return None
    (before, stable_tokens), (after, candidate_tokens) = stable, candidate
    was, now = dict(before), dict(after)
    return EvaluationRow(
        project_id=retrieval.project_id,
        kind=RowKind.ANSWER,
        retrieval=retrieval,
        stable=releases.stable,
        candidate=releases.candidate,
        verdict=ComparisonVerdict.SAME if before == after else ComparisonVerdict.DIFFERS,
        figures={
            "lessons": [{"heuristic": str(id), "content_sha256": sha256} for id, sha256 in after],
            "added": [str(id) for id in now if id not in was],
            "removed": [str(id) for id in was if id not in now],
            "reworded": [str(id) for id, sha256 in after if id in was and was[id] != sha256],
            "stable_tokens": stable_tokens,
            "candidate_tokens": candidate_tokens,
        },
        at=retrieval.created_at,
        made_by=SHADOW.label,
    )


def _answer(
    question: Question, release: Release, wordings: Mapping[UUID, tuple[UUID, str]]
) -> tuple[_Given, int] | None:
    """Return the lessons that a release gives, in order, and the tokens of the block."""
    pinned = {name: getattr(question, name) for name in Question.__slots__} | {"release_id": release.pk}
    prepared = prepare_answer(Question(**pinned))
    # An answer without its usual search would look like a difference between the releases.
    if prepared.answer.degraded or prepared.row is None:
        return None
    shown = {UUID(item["id"]): item["content_sha256"] for item in prepared.answer.items if item["injected"]}
    ids = [UUID(id) for id in prepared.row["injected_ids"].strip("{}").split(",") if id]
    given = [(id, shown.get(id) or wordings.get(id, (id, ""))[1]) for id in ids]
    return given, prepared.answer.tokens


def _ask_again(retrieval: Retrieval, used: ReleaseSettings) -> Question:
    """Return the question of an answer. What it had from its release is left open, so that each release says it."""
    options: dict[str, Any] = retrieval.options
    record_tokens = count_tokens(retrieval.record_text) + 1 if retrieval.record_text else 0
    # The stored budget has the tokens of the record on top of the usual one.
    is_usual_budget = retrieval.budget_tokens - record_tokens == used.context_budget_tokens
    return Question(
        project=retrieval.project,
        task=retrieval.task,
        by=SHADOW,
        task_id=retrieval.task_id,
        agent=retrieval.agent,
        top_k=None if retrieval.top_k == used.top_k else retrieval.top_k,
        mode=None if retrieval.requested_mode == used.mode else retrieval.requested_mode,
        budget_tokens=None if is_usual_budget else retrieval.budget_tokens,
        filters=Filters(
            task_ids=tuple(options.get("families", ())),
            tags=tuple(options.get("tags", ())),
            agents=tuple(options.get("source_agents", ())),
            polarities=tuple(options.get("polarities", ())),
        ),
        record=options.get("record", True),
    )
