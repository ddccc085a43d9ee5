"""Keep an evolution that has ended: a row for it and one for each candidate, which are never changed."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from evaluation.evolution.archive import Archive, ArchivedCandidate
from evaluation.evolution.generations import Evolved
from evaluation.evolution.suite import EvolutionTask
from evaluation.reports.versions import find_revision
from memory.api.canonical import canonical_json
from memory.ids import uuid7
from memory.projects.actors import Actor
from runtime.models.agents import Agent
from runtime.models.changes import Change, EvaluationRow, RowKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What an evolution was started with. `agent` is None for the agent of a suite's demonstration, `id` its job's."""

    suite: str
    seed: int
    generations: int
    started_at: datetime
    agent: Agent | None = None
    id: UUID = field(default_factory=uuid7)
    proposer: Mapping[str, Any] = field(default_factory=dict)


@transaction.atomic
def keep_evolution(evolved: Evolved, origin: Origin, *, by: Actor, change: Change | None = None) -> EvaluationRow:
    """Store an evolution and its candidates; `change` is what was proposed of the one that it chose."""
    project_id = origin.agent.project_id if origin.agent is not None else None
    evolution = EvaluationRow.objects.create(
        id=origin.id,
        project_id=project_id,
        kind=RowKind.EVOLUTION,
        agent=origin.agent,
        name=origin.suite,
        figures={
            "seed": origin.seed,
            "generations": origin.generations,
            "sets": {name: _count(getattr(evolved.sets, name)) for name in ("mine", "gate", "holdout")},
            "looks": evolved.gate.looks,
            "most_looks": evolved.gate.most_looks,
            "measured": evolved.measured,
            "proposer": dict(origin.proposer),
            "versions": {"git_revision": find_revision()},
        },
        at=origin.started_at,
        made_by=by.label,
    )
    archive = evolved.archive
    front, best = {member.number for member in archive.pareto()}, archive.best().number
    EvaluationRow.objects.bulk_create(
        EvaluationRow(
            project_id=project_id,
            kind=RowKind.CANDIDATE,
            parent=evolution,
            index=candidate.number,
            change=change if candidate.number == best else None,
            said=candidate.said,
            figures={
                "generation": candidate.generation,
                "parents": list(candidate.parents),
                "adds": _find_added(archive, candidate),
                "sha256": hashlib.sha256(canonical_json(candidate.proposal.content())).hexdigest(),
                "scores": {family: asdict(score) for family, score in candidate.scores.items()},
                "look": candidate.look,
                "stopped_by": candidate.stopped_by,
                "is_on_front": candidate.number in front,
                "is_chosen": candidate.number == best,
            },
            made_by=by.label,
        )
        for candidate in archive.candidates
    )
    return evolution


def _count(tasks: Sequence[EvolutionTask]) -> dict[str, int]:
    return dict(sorted(Counter(task.family for task in tasks).items()))


def _find_added(archive: Archive, candidate: ArchivedCandidate) -> dict[str, Any]:
    """Return what a candidate has that its parent has not."""
    has = candidate.proposal.content()
    had = archive.candidates[candidate.parent].proposal.content() if candidate.parent is not None else {}
    tools = [tool for tool in has.pop("tools") if tool not in had.get("tools", [])]
    return {name: value for name, value in has.items() if value != had.get(name)} | {"tools": tools}
