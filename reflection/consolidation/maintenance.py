"""Suggest repairs of lessons that runs followed and failed (reference: ERL (b) 18, after Memp and ACE's harmful tag).

Without a language model one pattern can be seen: the failures are of other task families than the successes. Then the
lesson should be narrowed. Where it has only failed, the tasks may be hard: that alone is no reason to retire it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2
from uuid import UUID

from memory.effects.models import UsageVerdict
from memory.effects.uses import Use, find_uses
from memory.heuristics.models import Heuristic
from memory.runs.models import Trajectory
from reflection.consolidation.drafts import Advice, Author, Support
from reflection.consolidation.models import Suggestion
from reflection.consolidation.sources import Lesson
from reflection.reflectors.rules.detectors.recorded_notes import describe_tasks

MIN_FAILURES = 2  # runs that followed a lesson and failed
AUTHOR = Author(method="rules", version="1")
MAX_RUNS_READ = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedUse:
    """A lesson that runs followed and failed: the runs that followed it, by how they ended, newest first."""

    lesson: Lesson
    failed: tuple[Trajectory, ...]
    succeeded: tuple[Trajectory, ...]

    @property
    def support(self) -> tuple[Support, ...]:
        return tuple(Support(trajectory_id=run.pk) for run in (*self.failed, *self.succeeded))

    @property
    def occasion(self) -> str:
        # By doubling: a person who said no is asked again only when there are twice as many failures.
        return f"failed/{int(log2(len(self.failed)))}"


def find_failed_uses(lessons: Sequence[Lesson]) -> list[FailedUse]:
    """Return the served lessons that enough different runs followed and failed, most failures first. Four queries."""
    served = [lesson for lesson in lessons if lesson.status == Heuristic.Status.APPROVED]
    uses = find_uses([lesson.id for lesson in served])
    followed = {lesson.id: [use for use in uses.get(lesson.id, []) if _was_followed(use)] for lesson in served}
    concerned = [
        lesson for lesson in served if sum(use.outcome == "failure" for use in followed[lesson.id]) >= MIN_FAILURES
    ]
    newest: dict[UUID, list[Use]] = {
        lesson.id: sorted(followed[lesson.id], key=lambda use: (use.at, use.trajectory_id), reverse=True)[
            :MAX_RUNS_READ
        ]
        for lesson in concerned
    }
    runs = Trajectory.objects.in_bulk({use.trajectory_id for lesson_uses in newest.values() for use in lesson_uses})
    failed_uses = [
        FailedUse(
            lesson=lesson,
            failed=_ended(newest[lesson.id], runs, "failure"),
            succeeded=_ended(newest[lesson.id], runs, "success"),
        )
        for lesson in concerned
    ]
    enough = [lesson_uses for lesson_uses in failed_uses if len(lesson_uses.failed) >= MIN_FAILURES]
    return sorted(enough, key=lambda lesson_uses: (-len(lesson_uses.failed), lesson_uses.lesson.rank))


def suggest_repair(use: FailedUse) -> Advice | None:
    """Suggest to narrow a lesson to where it did not fail."""
    lesson = use.lesson
    # Without a success nothing shows where the lesson does hold.
    if not use.succeeded:
        return None
    bad = Counter(run.task_id for run in use.failed if run.task_id)
    good = {run.task_id for run in use.succeeded}
    families = [family for family, _ in sorted(bad.items(), key=lambda pair: (-pair[1], pair[0])) if family not in good]
    caught = sum(bad[family] for family in families)
    words = describe_tasks(families, [""]) if families else ""
    if not words.startswith("When the task is of the kind ") or 2 * caught < len(use.failed):
        # The failures have nothing visible in common. A person or a model may see more.
        return None
    condition = words.removeprefix("When ")
    present = lesson.revision.not_when.rstrip(". ")
    text = replace(lesson.revision.as_text(), not_when=f"{present}; or {condition}" if present else condition)
    return Advice(
        kind=Suggestion.Kind.NARROW,
        heuristic_id=lesson.id,
        content_sha256=lesson.revision.content_sha256,
        text=text,
        reason=(
            f"{len(use.failed)} runs followed it and failed, {caught} of them in families where none that "
            f"followed it succeeded; {len(use.succeeded)} succeeded elsewhere."
        ),
        author=AUTHOR,
        support=use.support,
        occasion=use.occasion,
    )


def _was_followed(use: Use) -> bool:
    return use.verdict == UsageVerdict.Verdict.FOLLOWED and use.outcome != "unknown"


def _ended(uses: Iterable[Use], runs: dict[UUID, Trajectory], outcome: str) -> tuple[Trajectory, ...]:
    return tuple(runs[use.trajectory_id] for use in uses if use.outcome == outcome and use.trajectory_id in runs)
