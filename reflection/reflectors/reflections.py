"""Run a reflection: claim it, read the run, ask for lessons, check them, and write the result in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memory.curation.proposals import has_room
from memory.failpoints import failpoint
from memory.runs.episode import Episode
from memory.runs.models import Trajectory
from reflection.errors import LostClaim
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.queue import claim, finish, note
from reflection.llm.calls import Ask, RememberedAsk, ask_to_reflect
from reflection.llm.registry import find_config
from reflection.reflectors.base import ProposedLesson, ReflectionResult, Reflector
from reflection.reflectors.checks import Severity, find_valid_citations, is_rejected, verify
from reflection.reflectors.groups import Tries, find_tries, read_tries
from reflection.reflectors.llm import LlmReflector
from reflection.reflectors.matching import CheckedLesson
from reflection.reflectors.models import KIND, Proposal, Reflection
from reflection.reflectors.nearest import (
    embed_lesson,
    find_family_names,
    find_family_runs,
    find_near_heuristics,
)
from reflection.reflectors.proposals import store_lessons
from reflection.reflectors.rules import RulesReflector
from reflection.reflectors.tallies import record_patterns

MAX_NOTES = 5  # rules that come from the notes of one run
MAX_NAMED_ORIGINS = 3
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
    trajectory = Trajectory.objects.select_related("retrieval", "system_prompt").filter(pk=reflection.subject).first()
    if trajectory is None:
        raise LostClaim("The run was erased.")
    if not has_room(reflection.project_id, trajectory.client):
        # Before anything is asked or spent.
        alone = find_tries(reflection, trajectory, together=False)
        return _store(reflection, alone, lessons=[], skip_reason=NO_ROOM)
    reflector = make_reflector(ask=RememberedAsk(reflection, heartbeat, ask_model=ask_model, use="reflect"))
    tries = find_tries(reflection, trajectory, together=reflector.reads_tries)
    episode = read_tries(tries) if reflector.reads_tries else tries.episodes[0]
    family = find_family_runs(trajectory) if reflector.reads_family else []
    episode = replace(episode, family=tuple(run.as_episode() for run in family))
    _name_author(reflection, reflector, episode)
    near = find_near_heuristics(reflection.project, episode) if reflector.reads_near else ()
    result = reflector.reflect(episode, near=near)
    failpoint("reflection.asked")
    if result.lessons:
        episode = replace(episode, family_names=find_family_names(trajectory))
    lessons, dropped = _check(result, episode, tries, family)
    # The model may have taken long; what follows is written only while the job is still ours.
    heartbeat.ensure_held()
    failpoint("reflection.before_write")
    reason = " ".join(filter(None, (result.skip_reason, dropped)))
    proposals = _store(reflection, tries, lessons=lessons, skip_reason=reason, patterns=result.patterns)
    failpoint("reflection.after_commit")
    return proposals


@transaction.atomic
def _store(
    reflection: Reflection,
    tries: Tries,
    *,
    lessons: list[CheckedLesson],
    skip_reason: str,
    patterns: tuple[str, ...] | None = None,
) -> list[Proposal]:
    """Write the effect and the end of the reflection together, or nothing."""
    tries.ensure_unchanged()
    trajectory = tries.trajectories[0]
    if patterns is not None:
        record_patterns(trajectory, patterns, version=reflection.reflector_version)
    proposals = store_lessons(reflection, trajectory, lessons=lessons)
    proposed = sum(proposal.effect != Proposal.Effect.SUPPORT for proposal in proposals)
    if len(proposals) < len(lessons):
        skip_reason = f"{skip_reason} {NO_ROOM}".strip()
    finish(reflection, heuristics_proposed=proposed, skip_reason=skip_reason)
    tries.finish_others()
    failpoint("reflection.before_commit")
    return proposals


def _name_author(reflection: Reflection, reflector: Reflector, episode: Episode) -> None:
    """Note on the row what reflects, so that a failure names it too."""
    prompt_version: Callable[[Episode], str] | None = getattr(reflector, "prompt_version", None)
    note(
        reflection,
        reflector=reflector.name,
        reflector_version=reflector.version,
        prompt_version=prompt_version(episode) if prompt_version else "",
        # Where another reflection was to do the work of this one and did not.
        carried_by=None,
    )


def _check(
    result: ReflectionResult, episode: Episode, tries: Tries, family: Sequence[Trajectory]
) -> tuple[list[CheckedLesson], str]:
    """Return the lessons that a reviewer may see, and a sentence about each of those dropped."""
    kept: list[CheckedLesson] = []
    dropped: list[str] = []
    for lesson in result.lessons:
        findings = verify(lesson, episode)
        if is_rejected(findings):
            reasons = " ".join(finding.message for finding in findings if finding.severity == Severity.REJECT)
            dropped.append(reasons)
            continue
        lesson = replace(lesson, citations=find_valid_citations(lesson, episode))
        noted = tuple(finding.as_json() for finding in findings)
        evidence = tries.cite(lesson.citations)
        origins = tuple(family[number] for number in lesson.family_runs)
        checked = CheckedLesson(
            lesson=_name_origins(lesson, origins),
            findings=noted,
            vectors=embed_lesson(lesson.text),
            evidence=evidence,
            origins=origins,
        )
        kept.append(checked)
    return kept, " ".join(dict.fromkeys(dropped))


def _name_origins(lesson: ProposedLesson, origins: Sequence[Trajectory]) -> ProposedLesson:
    """Name in the rationale the runs from which the text has words, so that a reviewer can look there."""
    if not origins:
        return lesson
    # By the id that ERL gave them: those of clients may be about people, and stay when a run is erased.
    names = [str(run.pk) for run in origins[:MAX_NAMED_ORIGINS]]
    more = f" and {len(origins) - len(names)} more" if len(origins) > len(names) else ""
    rationale = f"{lesson.text.rationale} Names in it come from other runs of the family: {', '.join(names)}{more}."
    return replace(lesson, text=replace(lesson.text, rationale=rationale))
