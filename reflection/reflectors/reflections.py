"""Run a reflection: claim it, read the run, ask for lessons, check them, and write the result in one transaction."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memory.curation.proposals import has_room
from memory.failpoints import failpoint
from memory.retrieval.replay import find_injected_wordings
from memory.runs.episode import Episode
from memory.runs.models import Trajectory
from reflection.errors import LostClaim, OutcomeChanged
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.queue import claim, finish, note
from reflection.llm.calls import Ask, RememberedAsk, ask_to_reflect
from reflection.llm.registry import find_config
from reflection.reflectors.base import ReflectionResult, Reflector
from reflection.reflectors.checks import Finding, is_rejected, verify
from reflection.reflectors.llm import LlmReflector
from reflection.reflectors.models import KIND, Proposal, Reflection
from reflection.reflectors.nearest import embed_lesson, find_family_runs, find_near_heuristics
from reflection.reflectors.proposals import CheckedLesson, store_lessons
from reflection.reflectors.repetition import write_given
from reflection.reflectors.rules import RulesReflector
from reflection.reflectors.tallies import record_patterns

MAX_NOTES = 5  # rules that come from the notes of one run
NO_ROOM = (
    "As many of this client's lessons as ERL_PENDING_PROPOSALS_PER_CLIENT allows are waiting for a reviewer. The run "
    "is kept; reflect on it again when some of them have been decided."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt at one reflection."""

    outcome: Outcome
    reflection_id: UUID | None = None
    proposed: int = 0
    supported: int = 0


class ReflectorFactory(Protocol):
    def __call__(self, *, ask: Ask) -> Reflector: ...


def get_reflector(*, ask: Ask = ask_to_reflect) -> Reflector:
    """Return the reflector that ERL_REFLECTOR names; "auto" is the model where one is configured, else the rules.

    `ask` stands between the reflector and the provider. Raises `ProviderNotConfigured` where the model is wanted and
    not configured.
    """
    choice = settings.ERL_REFLECTOR
    if choice == "rules" or (choice == "auto" and find_config("reflect") is None):
        return RulesReflector(max_lessons=settings.ERL_LESSONS_PER_TRAJECTORY, max_notes=MAX_NOTES)
    return LlmReflector(ask=ask)


def run_reflection(
    reflection_id: UUID | None = None,
    *,
    owner: str,
    make_reflector: ReflectorFactory = get_reflector,
    ask_model: Ask = ask_to_reflect,
) -> Attempt:
    """Claim one reflection, or the one that is due longest, and carry it out. What goes wrong is written on its row.

    Raises only what stops the process, after giving the reflection back, and what the database raises at the claim.
    """
    reflection = claim(KIND, reflection_id, owner=owner, model=Reflection)
    if reflection is None:
        return Attempt(outcome=Outcome.NOTHING, reflection_id=reflection_id)
    outcome, proposals = carry_out(
        reflection, partial(_reflect, reflection, make_reflector=make_reflector, ask_model=ask_model)
    )
    proposed = sum(proposal.effect != Proposal.Effect.SUPPORT for proposal in proposals or ())
    supported = len(proposals or ()) - proposed
    return Attempt(outcome=outcome, reflection_id=reflection.pk, proposed=proposed, supported=supported)


def _reflect(
    reflection: Reflection, heartbeat: Heartbeat, *, make_reflector: ReflectorFactory, ask_model: Ask
) -> list[Proposal]:
    trajectory = Trajectory.objects.select_related("retrieval").filter(pk=reflection.subject).first()
    if trajectory is None:
        raise LostClaim("The run was erased.")
    if not has_room(reflection.project_id, trajectory.client):
        # Before anything is asked or spent.
        return _store(reflection, trajectory, lessons=[], skip_reason=NO_ROOM)
    episode = trajectory.as_episode(injected=_find_injected_texts(trajectory))
    reflector = make_reflector(ask=RememberedAsk(reflection, heartbeat, ask_model=ask_model, use="reflect"))
    if reflector.reads_family:
        episode = replace(episode, family=find_family_runs(trajectory))
    _name_author(reflection, reflector, episode)
    near = find_near_heuristics(reflection.project, episode) if reflector.reads_near else ()
    result = reflector.reflect(episode, near=near)
    failpoint("reflection.asked")
    lessons, dropped = _check(result, episode)
    # The model may have taken long; what follows is written only while the job is still ours.
    heartbeat.ensure_held()
    failpoint("reflection.before_write")
    reason = result.skip_reason or dropped
    proposals = _store(reflection, trajectory, lessons=lessons, skip_reason=reason, patterns=result.patterns)
    failpoint("reflection.after_commit")
    return proposals


@transaction.atomic
def _store(
    reflection: Reflection,
    trajectory: Trajectory,
    *,
    lessons: list[CheckedLesson],
    skip_reason: str,
    patterns: tuple[str, ...] | None = None,
) -> list[Proposal]:
    """Write the effect and the end of the reflection together, or nothing."""
    # Locked until the end: an outcome reported now is either seen here, or comes later and queues a reflection.
    now = Trajectory.objects.select_for_update(no_key=True).filter(pk=trajectory.pk).first()
    if now is None:
        raise LostClaim("The run was erased.")
    if (now.outcome, now.score, now.outcome_source) != (
        trajectory.outcome,
        trajectory.score,
        trajectory.outcome_source,
    ):
        # The lesson was drawn from an ending that no longer holds.
        raise OutcomeChanged("The outcome of the run was reported again. The reflection is repeated.")
    if patterns is not None:
        record_patterns(trajectory, patterns, version=reflection.reflector_version)
    proposals = store_lessons(reflection, trajectory, lessons=lessons)
    proposed = sum(proposal.effect != Proposal.Effect.SUPPORT for proposal in proposals)
    reason = "" if proposals else NO_ROOM if lessons else skip_reason
    finish(reflection, heuristics_proposed=proposed, skip_reason=reason)
    failpoint("reflection.before_commit")
    return proposals


def _find_injected_texts(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the lessons this run was given: repeating them would prove nothing."""
    if trajectory.retrieval is None:
        return ()
    given = find_injected_wordings([trajectory.retrieval])[trajectory.retrieval.pk]
    return tuple(map(write_given, given))


def _name_author(reflection: Reflection, reflector: Reflector, episode: Episode) -> None:
    """Note on the row what reflects, so that a failure names it too."""
    prompt_version: Callable[[Episode], str] | None = getattr(reflector, "prompt_version", None)
    note(
        reflection,
        reflector=reflector.name,
        reflector_version=reflector.version,
        prompt_version=prompt_version(episode) if prompt_version else "",
    )


def _check(result: ReflectionResult, episode: Episode) -> tuple[list[CheckedLesson], str]:
    """Return the lessons that a reviewer may see, and a sentence about those dropped."""
    kept: list[CheckedLesson] = []
    dropped: list[Finding] = []
    for lesson in result.lessons:
        findings = verify(lesson, episode)
        if is_rejected(findings):
            dropped += findings
            continue
        noted = tuple({"code": finding.code, "message": finding.message} for finding in findings)
        # A lesson that covers an existing one is not searched for, so it needs no vector.
        vectors = embed_lesson(lesson.text) if lesson.covers_existing is None else None
        kept.append(CheckedLesson(lesson=lesson, findings=noted, vectors=vectors))
    reasons = dict.fromkeys(finding.message for finding in dropped if is_rejected([finding]))
    return kept, " ".join(reasons)
