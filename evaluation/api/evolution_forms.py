"""Evolutions of agents as clients send and read them."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from evaluation.evolution.requests import (
    CHOICES,
    MOST_GENERATIONS,
    MOST_SEED,
    MOST_TASKS,
    RECORDED,
    EvolutionPlan,
    read_plan,
)
from evaluation.reports.evolutions import write_gain
from memory.api.input import WHOLE, Id, Input, OneOf
from memory.api.output import Pagination
from memory.errors import InvalidInput
from reflection.jobs.models import Job, JobStatus
from runtime.models.changes import EvaluationRow


class EvolveInput(Input):
    """What an agent evolves on."""

    agent: Annotated[Id, Field(description="The id of the agent.")]
    suite: Annotated[
        str,
        Field(
            json_schema_extra={"enum": list(CHOICES)},
            description="`recorded`: the tasks of its own recorded runs. `bfcl`: dialogues with simulated services; "
            "it must have their tools.",
        ),
    ] = RECORDED
    generations: Annotated[int, Field(ge=1, le=MOST_GENERATIONS), WHOLE] = 5
    seed: Annotated[int, Field(ge=0, le=MOST_SEED, description="Draws the three sets."), WHOLE] = 0
    most: Annotated[
        int,
        Field(ge=0, le=MOST_TASKS, description="Tasks of each family at most. 0: all of `bfcl`, or 50 recorded runs."),
        WHOLE,
    ] = 0

    def as_plan(self) -> EvolutionPlan:
        """Return what was sent as a plan."""
        if self.suite not in CHOICES:
            raise InvalidInput({"/suite": [f"Send one of {', '.join(CHOICES)}."]})
        return EvolutionPlan(**self.model_dump() | {"agent": str(self.agent)})


class ScoreAnswer(BaseModel):
    """What a candidate did on the tasks of a family in the gate set."""

    tasks: int
    solved: int
    steps: float
    tokens: float


class CandidateAnswer(BaseModel):
    """A candidate. Number 0 is the agent as it was. `scores` is empty where a check stopped it before the gate."""

    number: int
    generation: int
    parents: Annotated[list[int], Field(description="Numbers of other candidates.")]
    adds: Annotated[dict[str, Any], Field(description="What it adds to its parents.")]
    sha256: Annotated[str, Field(description="The hash of everything that it adds to the agent as it was.")]
    scores: Annotated[dict[str, ScoreAnswer], Field(description="By family.")]
    look: Annotated[int | None, Field(description="Which look at the gate it was.")]
    stopped_by: Annotated[str, Field(description="The check or gate that stopped it; empty where it was kept.")]
    said: Annotated[str, Field(description="What the check or gate found.")]
    is_on_front: Annotated[bool, Field(description="Whether no other candidate beats it in every family.")]
    is_chosen: Annotated[bool, Field(description="Whether it was measured on the hold-out.")]
    change: Annotated[UUID | None, Field(description="The change that was proposed from it.")]


class EvolutionSummary(BaseModel):
    """An evolution. What it found is null until it is done; `finished_at` is null until it is done or dead."""

    id: UUID
    agent: UUID
    suite: str
    generations: int
    seed: int
    status: Annotated[str, OneOf(JobStatus)]
    error: Annotated[str, Field(description="What went wrong in the last attempt.")]
    sentence: Annotated[str | None, Field(description="What was gained on the hold-out.")]
    looks: Annotated[int | None, Field(description="How often the gate was looked at.")]
    most_looks: int | None
    change: Annotated[UUID | None, Field(description="The change that was proposed in the end.")]
    started_by: str
    created_at: datetime
    finished_at: datetime | None


class EvolutionReport(EvolutionSummary):
    """An evolution with everything that it tried. The lists are empty until it is done."""

    sets: Annotated[dict[str, dict[str, int]], Field(description="Tasks by set and family; no task is in two sets.")]
    measured: Annotated[
        dict[str, Any],
        Field(description="The chosen candidate on the hold-out and the agent as it was. Differences are per task."),
    ]
    proposer: Annotated[dict[str, Any], Field(description="What a language model proposed, if one was asked.")]
    candidates: list[CandidateAnswer]


class EvolutionPage(BaseModel):
    """Evolutions that have ended, the newest first, and those that have not."""

    results: list[EvolutionSummary]
    unfinished: Annotated[
        list[EvolutionSummary],
        Field(description="The newest 20 that are waiting, running or dead; the same on every page."),
    ]
    pagination: Pagination


def describe_evolution(evolution: EvaluationRow, chosen: EvaluationRow | None) -> dict[str, Any]:
    """Return an evolution that has ended, without its candidates. `chosen` is the one that met the hold-out."""
    same = ("generations", "seed", "looks", "most_looks")
    return {name: evolution.figures[name] for name in same} | {
        "id": evolution.pk,
        "agent": evolution.agent_id,
        "suite": evolution.name,
        "status": JobStatus.DONE,
        "error": "",
        "sentence": write_gain(evolution, chosen),
        "change": chosen.change_id if chosen is not None else None,
        "started_by": evolution.made_by,
        "created_at": evolution.at,
        "finished_at": evolution.made_at,
    }


def describe_evolution_fully(evolution: EvaluationRow) -> dict[str, Any]:
    """Return an evolution that has ended, with its candidates."""
    candidates = list(evolution.candidates.order_by("index"))
    chosen = next((candidate for candidate in candidates if candidate.figures["is_chosen"]), None)
    return (
        describe_evolution(evolution, chosen)
        | {name: evolution.figures[name] for name in ("sets", "measured", "proposer")}
        | {"candidates": [_describe_candidate(member) for member in candidates]}
    )


def describe_job(job: Job) -> dict[str, Any]:
    """Return an evolution that has not ended, as far as it is known."""
    plan = read_plan(job)
    return {
        "id": job.pk,
        "agent": plan.agent,
        "suite": plan.suite,
        "generations": plan.generations,
        "seed": plan.seed,
        "status": job.status,
        "error": job.last_error,
        "sentence": None,
        "looks": None,
        "most_looks": None,
        "change": None,
        "started_by": job.requested_by,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
    }


def describe_job_fully(job: Job) -> dict[str, Any]:
    """Return an evolution that has not ended in the form of one that has."""
    return describe_job(job) | {"sets": {}, "measured": {}, "proposer": {}, "candidates": []}


def _describe_candidate(candidate: EvaluationRow) -> dict[str, Any]:
    return {**candidate.figures, "number": candidate.index, "said": candidate.said, "change": candidate.change_id}
