"""What a change does to the lessons that agents are given: those that it brings, and how many are given.

Both are about the whole project. A lesson that is on trial was approved by a person or a key, as every lesson is: the
database serves no other.
"""

from collections.abc import Iterable
from contextlib import suppress
from uuid import UUID

from memory.curation.decisions import approve_heuristic, retire_heuristic
from memory.errors import ChangedMeanwhile, InvalidInput, NotAllowed, NotServable, SecondReviewerNeeded
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.manifest import find_retrieval, index_lessons
from memory.releases.models import Release
from memory.retrieval.context import build_context
from runtime.limits import Retrieving
from runtime.models.changes import Change

WITHDRAWS = Actor.policy("changes")
_Status = Heuristic.Status


def find_wordings(project: Project, lessons: Iterable[UUID]) -> list[UUID]:
    """Return the ids of what proposed lessons say now, in a fixed order.

    Raises:
        InvalidInput: one is not proposed, or is in use in other words.
    """
    rows = {lesson.pk: lesson for lesson in Heuristic.objects.filter(project=project, pk__in=list(lessons))}
    used = set(HeuristicRevision.objects.filter(heuristic__in=rows, served=True).values_list("heuristic_id", flat=True))
    wordings: set[UUID] = set()
    for index, id in enumerate(lessons):
        row = rows.get(id)
        if row is None or row.current_revision_id is None:
            raise InvalidInput({f"/lessons/{index}": [f"No lesson {id} exists in this project. Propose it first."]})
        if row.status != _Status.PROPOSED:
            raise InvalidInput({f"/lessons/{index}": [f"This lesson is {row.status}. Name one that is proposed."]})
        if id in used:
            message = "This lesson is in use in another wording. Decide on the new one in the inbox."
            raise InvalidInput({f"/lessons/{index}": [message]})
        wordings.add(row.current_revision_id)
    return sorted(wordings)


def find_retuned(project: Project, wanted: Retrieving | None) -> dict[str, int]:
    """Return what a proposal changes about how many lessons are given."""
    if wanted is None:
        return {}
    now = find_retrieval(project)
    return {name: value for name, value in wanted.model_dump().items() if value is not None and value != now[name]}


def read_wordings(change: Change) -> list[HeuristicRevision]:
    """Return the wordings that a change brings, without those that were erased since."""
    rows = HeuristicRevision.objects.filter(pk__in=change.lessons, project=change.project_id)
    return list(rows.select_related("heuristic").order_by("pk"))


def write_lessons(change: Change) -> str:
    """Return the block that a rehearsal has besides the lessons of its run: all that the change brings."""
    members = ("trigger", "guideline", "avoid", "not_when")
    lessons = [
        {"id": wording.heuristic_id.hex} | {name: getattr(wording, name) for name in members}
        for wording in read_wordings(change)
    ]
    return build_context(lessons, budget_tokens=find_retrieval(change.agent.project)["context_budget_tokens"]).text


def find_lesson_faults(change: Change) -> list[str]:
    """Return why the lessons of a change could not be approved as they are. Nothing is wrong with one in use."""
    wordings = {row.pk: row for row in read_wordings(change)}
    faults = []
    for id in change.lessons:
        wording = wordings.get(id)
        if wording is None:
            faults.append("A lesson that it brings was erased. Propose the change again without it.")
        elif wording.served:
            continue
        elif wording.heuristic.current_revision_id != id:
            faults.append(f"The lesson “{wording.trigger[:80]}” was reworded. Propose the change again.")
        elif wording.heuristic.status != _Status.PROPOSED:
            fault = f"The lesson “{wording.trigger[:80]}” is {wording.heuristic.status}. Propose the change without it."
            faults.append(fault)
        elif flags := wording.heuristic.risk_flags:
            faults.append(
                f"The lesson “{wording.trigger[:80]}” was flagged ({', '.join(flags)}). Decide on it in the inbox."
            )
    return faults


def approve_lessons(change: Change, *, by: Actor) -> list[HeuristicRevision]:
    """Approve the lessons of a change, as the decision to try it, and return their wordings.

    Raises:
        NotAllowed: a policy decides. Lessons are approved by people, or by keys that they gave.
        SecondReviewerNeeded: two people have to approve a lesson, and none has yet.
        ChangedMeanwhile: a lesson was decided on, reworded or flagged since the change was checked.
        MemoryAppError: a lesson cannot be approved; see `approve_heuristic`.
    """
    if faults := find_lesson_faults(change):
        raise ChangedMeanwhile(" ".join(faults))
    wordings = read_wordings(change)
    if wordings and by.user_id is None and by.api_key_id is None:
        raise NotAllowed("This change brings a lesson, which a person has to approve. Try the change yourself.")
    for wording in wordings:
        # A newer wording may wait for a decision, but it is not what is tried.
        if wording.served:
            continue
        reason = f"{change.agent.name}: {change}"
        decided = approve_heuristic(wording.heuristic, by=by, content_sha256=wording.content_sha256, reason=reason)
        if decided.status != _Status.APPROVED:
            raise SecondReviewerNeeded(
                "This project requires two reviewers. Let one of them approve the lesson in the inbox, and another one "
                "try the change."
            )
    return wordings


def withdraw_lessons(change: Change, stable: Release | None) -> None:
    """Retire the lessons of a change that was taken back, so that no later release has them. This never fails.

    Args:
        stable: the release that is deployed now; what is part of it stays.
    """
    kept = {revision for revision, _ in index_lessons(stable.manifest).values()} if stable is not None else set()
    for wording in read_wordings(change):
        if wording.served and wording.pk not in kept:
            with suppress(NotServable):  # a person has retired it at this moment
                retire_heuristic(
                    wording.heuristic, by=WITHDRAWS, reason=f"{change.agent.name}: {change} was rolled back."
                )
