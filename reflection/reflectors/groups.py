"""Reflect once on several tries of a task that wait at the same time, as after an import."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from django.conf import settings

from memory.heuristics.text import Citation
from memory.retrieval.replay import find_injected_wordings
from memory.runs.episode import Episode
from memory.runs.models import Trajectory
from memory.trust.quarantine import leave_out_quarantined
from reflection.errors import LostClaim, OutcomeChanged
from reflection.jobs.queue import finish_carried, note, set_aside
from reflection.llm.models import ModelCall
from reflection.reflectors.contrast import MIXED, find_contrasts, find_try, is_whole_task, join_tries
from reflection.reflectors.models import Reflection
from reflection.reflectors.nearest import find_earlier_runs, find_family_runs, leave_out_later_turns, read_turn
from reflection.reflectors.repetition import write_given

MAX_TRIES = 6  # of a task in one reflection
MAX_STEPS = 150  # of all of them together
CARRIED = "It was reflected on together with another try of its task."


@dataclass(frozen=True, kw_only=True)
class Tries:
    """The run of a reflection, first, and other tries of its task whose reflections it carries out, too."""

    reflection: Reflection
    trajectories: tuple[Trajectory, ...]

    @cached_property
    def episodes(self) -> tuple[Episode, ...]:
        return tuple(run.as_episode(injected=_find_injected_texts(run)) for run in self.trajectories)

    def cite(self, citations: Sequence[Citation]) -> tuple[tuple[Trajectory, tuple[Citation, ...]], ...]:
        """Return which steps of which try a lesson cites, whose numbers go on from try to try."""
        if len(self.trajectories) == 1:
            return ((self.trajectories[0], tuple(citations) or (Citation(),)),)
        cited: dict[int, list[Citation]] = {}
        for citation in citations:
            if citation.first_step is None or citation.last_step is None:
                cited.setdefault(0, []).append(citation)
                continue
            numbers = range(citation.first_step, citation.last_step + 1)
            places = [find_try(self.episodes, number) for number in numbers]
            # A range may reach over the end of a try.
            for position in sorted({position for position, _ in places}):
                steps = [step for its_try, step in places if its_try == position]
                own = replace(citation, first_step=steps[0], last_step=steps[-1])
                cited.setdefault(position, []).append(own)
        evidence = tuple((self.trajectories[position], tuple(own)) for position, own in sorted(cited.items()))
        return evidence or ((self.trajectories[0], (Citation(),)),)

    def ensure_unchanged(self) -> None:
        """Lock the runs until the transaction ends, and check that they ended as they were read.

        Raises:
            LostClaim: the run of the reflection was erased.
            OutcomeChanged: an outcome was reported again, or another try was erased.
        """
        ids = [run.pk for run in self.trajectories]
        # Locked until the end: an outcome reported now is either seen here, or comes later and queues a reflection.
        now = {
            run.pk: run for run in Trajectory.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
        }
        for run in self.trajectories:
            if run.pk not in now and run is self.trajectories[0]:
                raise LostClaim("The run was erased.")
            if run.pk not in now:
                raise OutcomeChanged("Another try of the task was erased. The reflection is repeated without it.")
            if _ending(now[run.pk]) != _ending(run):
                # The lesson was drawn from an ending that no longer holds.
                raise OutcomeChanged("The outcome of the run was reported again. The reflection is repeated.")

    def finish_others(self) -> None:
        """Mark the reflections of the other tries done, in the transaction that writes the lessons."""
        reflection, others = self.reflection, [run.pk for run in self.trajectories[1:]]
        if not others:
            return
        ids = Reflection.objects.filter(trajectory__in=others, result__carried_by=str(reflection.pk))
        versions = {name: reflection.result[name] for name in ("reflector", "reflector_version", "prompt_version")}
        finish_carried(reflection, list(ids.values_list("pk", flat=True)), skip_reason=CARRIED, **versions)


def find_tries(reflection: Reflection, trajectory: Trajectory, *, together: bool) -> Tries:
    """Return the run of a claimed reflection, and where `together` the other tries that wait, in order of recording.

    Only tries of one agent that the same client recorded are joined: its lessons count against its own limit.
    """
    if not together or not _is_whole_task(trajectory, has_earlier_turns=bool(find_earlier_runs(trajectory))):
        return Tries(reflection=reflection, trajectories=(trajectory,))
    same_task = leave_out_later_turns(
        Trajectory.objects.filter(
            project_id=trajectory.project_id,
            task_id=trajectory.task_id,
            task=trajectory.task,
            agent=trajectory.agent,
            client=trajectory.client,
            api_key_id=trajectory.api_key_id,
        )
    )
    waiting = Reflection.objects.filter(
        project_id=reflection.project_id, goes_last=reflection.goes_last, status__in=Reflection.WAITING
    )
    same = waiting.filter(trajectory__in=leave_out_quarantined(same_task)).select_related("trajectory").order_by("pk")
    room, chosen = MAX_STEPS - len(trajectory.steps), []
    for other in same[: MAX_TRIES - 1]:
        room -= len(other.trajectory.steps)
        if room >= 0:
            chosen.append(other.pk)
    taken = (
        set_aside(reflection, Reflection.objects.filter(pk__in=chosen), seconds=settings.CELERY_TASK_TIME_LIMIT)
        if chosen
        else []
    )
    others = Trajectory.objects.select_related("retrieval").filter(jobs__in=taken).order_by("pk")
    return Tries(reflection=reflection, trajectories=(trajectory, *others))


def read_tries(tries: Tries) -> Episode:
    """Return the tries as one run, with the turns before it and what runs did that ended otherwise.

    Which runs are shown is noted on the reflection: its lessons may have words from each of them, and so may the
    answers of the model (`forget_shown`).
    """
    first, *others = tries.trajectories
    episode = join_tries(tries.episodes) if others else tries.episodes[0]
    earlier = find_earlier_runs(first)
    turns = tuple(map(read_turn, earlier))
    contrasts = {}
    family: list[Trajectory] = []
    # Tries that ended differently are a contrast themselves.
    if episode.outcome != MIXED:
        family = find_family_runs(first, by_task=_is_whole_task(first, has_earlier_turns=bool(earlier)))
        contrasts = find_contrasts(replace(tries.episodes[0], earlier=turns), [run.as_episode() for run in family])
    _note_shown(tries.reflection, [*others, *earlier, *(family[position] for position in contrasts)])
    return replace(episode, contrasts=tuple(contrasts.values()), earlier=turns)


def forget_shown(trajectory: Trajectory) -> None:
    """Delete the words of the model's answers in reflections on other runs that were shown this one."""
    shown = Reflection.objects.filter(
        project_id=trajectory.project_id, result__shown_runs__contains=[str(trajectory.pk)]
    )
    ModelCall.objects.filter(job__in=shown.values("pk")).erase_words()


def _note_shown(reflection: Reflection, runs: Sequence[Trajectory]) -> None:
    earlier = reflection.shown_runs
    # An answer that came while one of them was erased is not used, and its words are not kept.
    if earlier and Trajectory.objects.filter(pk__in=earlier).count() < len(earlier):
        ModelCall.objects.filter(job=reflection.pk).erase_words()
    if earlier or runs:
        note(reflection, shown_runs=[str(run.pk) for run in runs])


def _is_whole_task(run: Trajectory, *, has_earlier_turns: bool) -> bool:
    return is_whole_task(run.task, family=run.task_id, has_earlier_turns=has_earlier_turns)


def _ending(run: Trajectory) -> tuple[str, float | None, str]:
    return run.outcome, run.score, run.outcome_source


def _find_injected_texts(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the lessons this run was given: repeating them would prove nothing."""
    if trajectory.retrieval is None:
        return ()
    given = find_injected_wordings([trajectory.retrieval])[trajectory.retrieval.pk]
    return tuple(map(write_given, given))
