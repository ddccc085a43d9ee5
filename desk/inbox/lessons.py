"""Proposed lessons in the inbox, one item for each group of the same advice, and those that need a second approval."""

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.template.defaultfilters import pluralize
from django.urls import reverse

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab
from desk.lessons.decision_form import REASONS, STAYING, DecisionForm
from desk.lessons.desk import (
    LessonStanding,
    Stale,
    compare_with_read,
    count_outcome,
    effect_context,
    evidence_context,
    find_standing,
    find_wordings,
    history_context,
    similar_context,
    words_context,
)
from desk.lessons.queue import Queue
from desk.lessons.serving_facts import describe_serving
from memory.curation.reviewers import claim_heuristic, release_heuristic
from memory.curation.undo import is_undoable, undo_review
from memory.effects.outcomes import OutcomeCount
from memory.errors import ChangedMeanwhile, TooLateToUndo
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.access import may_review, narrow_to_projects
from memory.projects.actors import Actor
from memory.review.models import Review
from memory.rows import find_row

TABS = {"evidence": "Evidence", "similar": "Similar", "effect": "Effect", "history": "History"}
_OF_OUTCOME = {"effect", "history"}
_FOLDER = "admin/memory/heuristic"
NOT_A_REVIEWER = (
    "You need the permission “review heuristics” to decide on this page. Nothing was changed. Ask an administrator to "
    "add you to the group Reviewer."
)
_READ_ONLY = (
    "You can only read this page. To decide, you need the permission “review heuristics” and the role of a reviewer "
    "in this project."
)


class LessonKind(ItemKind):
    """A proposal that no person has approved yet."""

    name = "lesson"
    noun = "lesson"
    label = "Lessons"
    permission = "memory.view_heuristic"

    def queue(self, user: Any, query: str) -> QuerySet[Heuristic]:
        return self.arrange(Queue(user=user, query=query).split()[0], user, query)

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        order = Queue(user=user, query=query).order
        found = self.queue(user, query).annotate(other_wordings=Count("members")).order_by(*order)
        shown = found.select_related("current_revision", "claimed_by")[:limit]
        return [self._write_row(heuristic, user) for heuristic in shown]

    def _write_row(self, heuristic: Any, user: Any) -> ItemRow:
        revision: HeuristicRevision = heuristic.current_revision
        is_held = heuristic.is_claimed and heuristic.claimed_by_id != user.pk
        held_by = heuristic.claimed_by.get_username() if is_held else ""
        others = heuristic.other_wordings
        flags = [*heuristic.risk_flags, *(["whole project"] if revision.scope == revision.Scope.PROJECT else [])]
        return ItemRow(
            kind=self.name,
            id=heuristic.pk,
            title=revision.trigger,
            then=revision.guideline,
            why=f"{others + 1} wordings, {heuristic.support} run{pluralize(heuristic.support)}"
            if others
            else f"{heuristic.support} run{pluralize(heuristic.support)}",
            flags=flags,
            since=heuristic.created_at,
            held_by=held_by,
        )

    def find(self, user: Any, id: UUID) -> Heuristic | None:
        return find_lesson(user, id)

    def draw(self, user: Any, id: UUID) -> Pane | None:
        heuristic = find_lesson(user, id)
        return self.draw_lesson(heuristic, user=user) if heuristic is not None else None

    def draw_lesson(
        self,
        heuristic: Heuristic,
        *,
        user: Any,
        form: DecisionForm | None = None,
        stale: Stale | None = None,
        whole: bool = False,
    ) -> Pane:
        """Return a lesson, with the person's own words where a form came back, and all tabs if `whole`."""
        standing = find_standing(heuristic, user=user)
        form = form or DecisionForm.for_revision(heuristic, standing.revision)
        words = words_context(standing, user=user)
        evidence = evidence_context(heuristic)
        base = {**standing.as_context(), "form": form, "stale": stale, **words, **evidence}
        drawn = list(TABS) if whole else ["evidence"]
        outcome = count_outcome(heuristic) if whole else None  # two of the tabs tell of it
        for name in drawn[1:]:
            base |= tab_context(name, standing, outcome)
        names = {"evidence": f"Evidence {heuristic.support}"} if heuristic.support else {}
        return Pane(
            kind=self,
            id=heuristic.pk,
            sha256=standing.revision.content_sha256,
            heading=self.title if standing.waiting else f"Lesson: {heuristic.get_status_display().lower()}",
            template=f"{_FOLDER}/words.html",
            context=base,
            page=reverse("admin:memory_heuristic_change", args=[heuristic.pk]),
            actions=_list_actions(standing, form, is_approved_by_me=words["approved_by_me"]),
            tabs=[
                Tab(name=name, label=names.get(name, label), template=f"{_FOLDER}/{name}.html" if name in drawn else "")
                for name, label in TABS.items()
            ],
            hidden={
                "content_sha256": str(form["content_sha256"].value() or ""),
                "opened": str(form["opened"].value() or ""),
            },
            reasons=REASONS,
            form=form,
            note="" if standing.may_review else _READ_ONLY,
            held_by=standing.held_by,
            held_until=standing.held_until,
            can_take_over=standing.claimed_by_other and standing.may_review,
        )

    def draw_tab(self, user: Any, id: UUID, name: str) -> Tab | None:
        heuristic = find_lesson(user, id)
        if heuristic is None or name not in TABS:
            return None
        standing = find_standing(heuristic, user=user)
        form = DecisionForm.for_revision(heuristic, standing.revision)
        outcome = count_outcome(heuristic) if name in _OF_OUTCOME else None
        context = {**standing.as_context(), "form": form, **tab_context(name, standing, outcome)}
        context["form_action"] = reverse("admin:inbox_item", args=[self.name, id])
        return Tab(name=name, label=TABS[name], template=f"{_FOLDER}/{name}.html", context=context)

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        heuristic = find_lesson(user, id)
        return self.decide_on(heuristic, user=user, data=data) if heuristic is not None else None

    def decide_on(self, heuristic: Heuristic, *, user: Any, data: Any, whole: bool = False) -> Done | Pane:
        """Carry out what a form says about a lesson, as `decide` does."""
        if not user.has_perm("memory.review_heuristic"):
            raise PermissionDenied(NOT_A_REVIEWER)
        form = DecisionForm(data, heuristic=heuristic)
        if not form.is_valid():
            return self.draw_lesson(heuristic, user=user, form=form, whole=whole)
        decision = form.cleaned_data["decision"]
        if decision == "preview":
            form.show_difference()
            return self.draw_lesson(heuristic, user=user, form=form, whole=whole)
        by = Actor.person(user)
        try:
            said = form.carry_out(by=by)
        except ChangedMeanwhile:
            stale = compare_with_read(heuristic, form.cleaned_data["content_sha256"])
            now = find_lesson(user, heuristic.pk)
            if stale is None or now is None or now.current_revision is None:
                raise
            form = DecisionForm.after_change(form, now, now.current_revision)
            return self.draw_lesson(now, user=user, form=form, stale=stale, whole=whole)
        if decision in STAYING:
            return Done(said=said, stays=True)
        if decision == "release":
            return Done(said=said)
        release_heuristic(heuristic, by=by)
        latest = heuristic.reviews.filter(reviewer_user=user.pk).first()
        # A merge that takes over the wording has changed the other lesson, too.
        undoable = latest is not None and decision != "merge" and is_undoable(latest)
        return Done(said=said, undo=str(latest.pk) if latest is not None and undoable else "")

    def undo(self, user: Any, token: str, *, by: Actor) -> str:
        heuristic = undo_review(find_review(user, token), by=by)
        again = "is served" if heuristic.status == Heuristic.Status.APPROVED else "is waiting for a decision"
        return f"Undone. It {again} again; both decisions stay on record."

    def undo_address(self, token: str) -> str:
        return reverse("admin:memory_heuristic_undo", args=[token])

    def hold(self, user: Any, id: UUID) -> Any:
        heuristic = find_lesson(user, id)
        if heuristic is None or heuristic.current_revision is None or not may_review(user, heuristic.project_id):
            return None
        if not find_standing(heuristic, user=user).waiting:
            return None
        claimed = claim_heuristic(heuristic, user_id=user.pk)
        return str(claimed.claimed_by), claimed.claimed_until

    def release(self, user: Any, id: UUID) -> None:
        if (heuristic := find_lesson(user, id)) is not None:
            release_heuristic(heuristic, by=Actor.person(user))


class SecondApprovalKind(LessonKind):
    """A proposal that another person approved as the first of two."""

    name = "second"
    label = "Second approvals"
    subject = "lesson"

    @property
    def title(self) -> str:
        return "Second approval"

    def queue(self, user: Any, query: str) -> QuerySet[Heuristic]:
        return self.arrange(Queue(user=user, query=query).split()[1], user, query)


def find_lesson(user: Any, id: UUID) -> Heuristic | None:
    """Return a lesson that a person may see, with its wording."""
    rows = Heuristic.objects.select_related("current_revision", "project")
    return find_row(narrow_to_projects(rows, user).filter(pk=id, current_revision__isnull=False))


def find_review(user: Any, token: str) -> Review:
    """Return a decision in the projects that a person may see.

    Raises:
        TooLateToUndo: there is none.
    """
    try:
        id = UUID(token)
    except ValueError:
        id = UUID(int=0)
    reviews = narrow_to_projects(Review.objects.of_lessons().select_related("heuristic", "revision"), user)
    review = find_row(reviews.filter(pk=id))
    if review is None:
        raise TooLateToUndo("This decision no longer exists. Look at the lesson's history.")
    return review


def tab_context(name: str, standing: LessonStanding, outcome: OutcomeCount | None) -> dict[str, Any]:
    """Collect what one of the tabs of a lesson shows. `outcome` is that of the runs, for the tabs that tell of it."""
    heuristic, revision = standing.heuristic, standing.revision
    match name:
        case "similar":
            return {"wordings": find_wordings(heuristic, revision), **similar_context(heuristic, revision)}
        case "effect":
            return effect_context(heuristic, revision, outcome)
        case "history":
            return history_context(heuristic, outcome)
        case _:
            return {"serving": describe_serving(heuristic, revision), **evidence_context(heuristic)}


def _list_actions(standing: LessonStanding, form: DecisionForm, *, is_approved_by_me: bool) -> list[Button]:
    no = "" if standing.may_review else "You may only read this lesson."
    if standing.claimed_by_other:
        no = f"{standing.held_by} has claimed it. Take it over with c, or go on with j."
    undecided = no or ("" if standing.waiting else "This lesson is not waiting for a decision.")
    again = "You have already approved it. It is waiting for a second reviewer." if is_approved_by_me else ""
    if form.is_editing:
        again = "You are editing. Use “Save and approve”, or open the lesson again to discard your edit."
    in_use = no or ("" if standing.is_served else "There is nothing to retire: this lesson is not in use.")
    harmful = no or ("" if standing.waiting or standing.is_served else "There is nothing to quarantine here.")
    return [
        Button(key="a", decision="approve", label="Approve", tone="good", disabled=undecided or again),
        Button(key="e", decision="preview", label="Edit", asks="edit", stays=True, disabled=undecided),
        Button(key="r", decision="reject", label="Reject", asks="reason", tone="bad", disabled=undecided),
        Button(key="d", decision="duplicate", label="Duplicate", asks="similar", disabled=undecided),
        Button(key="q", decision="quarantine", label="Quarantine", asks="reason", disabled=harmful),
        Button(key="t", decision="retire", label="Retire", asks="reason", disabled=in_use),
    ]


LESSONS = LessonKind()
SECOND_APPROVALS = SecondApprovalKind()
