"""Proposed lessons in the inbox, one item for each group of the same advice, and those that need a second approval."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.template.defaultfilters import pluralize
from django.urls import reverse

from desk.inbox.kinds import Button, Done, ItemKind, ItemRow, Pane, Tab
from desk.lessons.decision_form import REASONS, STAYING, DecisionForm
from desk.lessons.desk import (
    collect_events,
    compare_with_read,
    effect_context,
    evidence_context,
    find_standing,
    similar_context,
    words_context,
)
from desk.lessons.queue import Queue
from desk.lessons.serving_facts import describe_serving
from memory.curation.reviewers import claim_heuristic, release_heuristic
from memory.curation.undo import is_undoable, undo_review
from memory.errors import ChangedMeanwhile
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.access import may_review
from memory.projects.actors import Actor
from memory.review.models import Review

TABS = {"evidence": "Evidence", "similar": "Similar", "effect": "Effect", "history": "History"}
_FOLDER = "admin/memory/heuristic"


class LessonKind(ItemKind):
    """A proposal that no person has approved yet."""

    name = "lesson"
    noun = "lesson"
    label = "Lessons"
    model = Heuristic
    related = ("current_revision", "project")
    permission = "memory.view_heuristic"
    reviews = (Review.Kind.LESSON,)

    def visible(self, rows: QuerySet[Heuristic], user: Any) -> QuerySet[Heuristic]:
        return super().visible(rows, user).filter(current_revision__isnull=False)

    def queue(self, user: Any, query: str) -> QuerySet[Heuristic]:
        return self.arrange(Queue(user=user, query=query).split()[0], user, query)

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        order = Queue(user=user, query=query).order
        waiting = self.queue(user, query).annotate(other_wordings=Count("members")).order_by(*order)
        rows = []
        for lesson in waiting.select_related("current_revision", "claimed_by")[:limit]:
            is_held = lesson.is_claimed and lesson.claimed_by_id != user.pk
            rows.append(replace(self.write_row(lesson), held_by=str(lesson.claimed_by) if is_held else ""))
        return rows

    def write_row(self, item: Any) -> ItemRow:
        revision: HeuristicRevision = item.current_revision
        runs = f"{item.support} run{pluralize(item.support)}"
        flags = [*item.risk_flags]
        if revision.scope == revision.Scope.PROJECT:
            flags.append("whole project")
        return ItemRow(
            kind=self.name,
            id=item.pk,
            title=revision.trigger,
            then=revision.guideline,
            why=f"{item.other_wordings + 1} wordings, {runs}" if item.other_wordings else runs,
            flags=flags,
            since=item.created_at,
        )

    def draw_item(
        self, item: Heuristic, *, user: Any, form: DecisionForm | None = None, stale: dict[str, Any] | None = None
    ) -> Pane:
        """Return a lesson, with the person's own words where a form came back; `stale` is what they read before."""
        standing = find_standing(item, user=user)
        revision = standing["revision"]
        form = form or DecisionForm.for_revision(item, revision)
        words = words_context(standing, user=user)
        evidence_label = f"Evidence {item.support}" if item.support else TABS["evidence"]
        rest = [Tab(name=name, label=label) for name, label in TABS.items() if name != "evidence"]
        return Pane(
            kind=self,
            id=item.pk,
            sha256=revision.content_sha256,
            heading=self.title if standing["waiting"] else f"Lesson: {item.get_status_display().lower()}",
            template=f"{_FOLDER}/words.html",
            context={**standing, "form": form, "stale": stale, **words, **evidence_context(item)},
            actions=list_actions(standing, form, is_approved_by_me=words["approved_by_me"]),
            tabs=[Tab(name="evidence", label=evidence_label, template=f"{_FOLDER}/evidence.html"), *rest],
            hidden={
                "content_sha256": str(form["content_sha256"].value() or ""),
                "opened": str(form["opened"].value() or ""),
            },
            reasons=REASONS,
            form=form,
            note="" if standing["may_review"] else f"You can only read this page. {self.not_allowed}",
            held_by=standing["held_by"],
            held_until=standing["held_until"],
            can_take_over=standing["claimed_by_other"] and standing["may_review"],
        )

    def draw_tab(self, user: Any, id: UUID, name: str) -> Tab | None:
        heuristic = self.find(user, id)
        if heuristic is None or name not in TABS:
            return None
        standing = find_standing(heuristic, user=user)
        revision = standing["revision"]
        context: dict[str, Any] = {**standing, "form": DecisionForm.for_revision(heuristic, revision)}
        context["form_action"] = reverse("admin:inbox_item", args=[self.name, id])
        match name:
            case "similar":
                context |= similar_context(heuristic, revision)
            case "effect":
                context |= effect_context(heuristic, revision)
            case "history":
                context["events"] = collect_events(heuristic)
            case _:
                context |= {"serving": describe_serving(heuristic, revision), **evidence_context(heuristic)}
        return Tab(name=name, label=TABS[name], template=f"{_FOLDER}/{name}.html", context=context)

    def may_decide(self, user: Any, item: Heuristic) -> bool:
        # Operators may withdraw a lesson without the role of a reviewer: the services tell who may do what.
        return bool(user.has_perm(self.decides))

    def carry_out(self, item: Heuristic, *, user: Any, data: Any) -> Done | Pane:
        form = DecisionForm(data, heuristic=item)
        if not form.is_valid():
            return self.draw_item(item, user=user, form=form)
        decision = form.cleaned_data["decision"]
        if decision == "preview":
            form.show_difference()
            return self.draw_item(item, user=user, form=form)
        by = Actor.person(user)
        try:
            message = form.carry_out(by=by)
        except ChangedMeanwhile:
            stale = compare_with_read(item, form.cleaned_data["content_sha256"])
            now = self.find(user, item.pk)
            if stale is None or now is None:
                raise
            return self.draw_item(now, user=user, form=DecisionForm.after_change(form, now), stale=stale)
        if decision in STAYING:
            return Done(said=message, stays=True)
        if decision == "release":
            return Done(said=message)
        release_heuristic(item, by=by)
        latest = item.reviews.filter(reviewer_user=user.pk).first()
        # A merge that takes over the wording has changed the other lesson, too.
        undoable = latest is not None and decision != "merge" and is_undoable(latest)
        return Done(said=message, undo=str(latest.pk) if latest is not None and undoable else "")

    def undo(self, user: Any, token: str, *, by: Actor) -> str:
        if not user.has_perm(self.decides):
            raise PermissionDenied(f"Nothing was changed. {self.not_allowed}")
        return super().undo(user, token, by=by)

    def undo_review(self, review: Review, *, by: Actor) -> Heuristic:
        return undo_review(review, by=by)

    def say_undone(self, lesson: Any) -> str:
        again = "is served" if lesson.status == Heuristic.Status.APPROVED else "is waiting for a decision"
        return f"Undone. It {again} again; both decisions stay on record."

    def hold(self, user: Any, id: UUID) -> tuple[str, datetime] | None:
        lesson = self.find(user, id)
        if lesson is None or not may_review(user, lesson.project_id) or not find_standing(lesson, user=user)["waiting"]:
            return None
        claimed = claim_heuristic(lesson, user_id=user.pk)
        assert claimed.claimed_until is not None, "this person's claim is in force, or another's"
        return str(claimed.claimed_by), claimed.claimed_until

    def release(self, user: Any, id: UUID) -> None:
        if (lesson := self.find(user, id)) is not None:
            release_heuristic(lesson, by=Actor.person(user))


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


def list_actions(standing: dict[str, Any], form: DecisionForm, *, is_approved_by_me: bool) -> list[Button]:
    """Return the buttons of a lesson; of those that cannot be pressed now, why not."""
    no = "" if standing["may_review"] else "You may only read this lesson."
    if standing["claimed_by_other"]:
        no = f"{standing['held_by']} has claimed it. Take it over with c, or go on with j."
    waiting, is_served = standing["waiting"], standing["is_served"]
    undecided = no or ("" if waiting else "This lesson is not waiting for a decision.")
    again = "You have already approved it. It is waiting for a second reviewer." if is_approved_by_me else ""
    if form.is_editing:
        again = "You are editing. Use “Save and approve”, or open the lesson again to discard your edit."
    in_use = no or ("" if is_served else "There is nothing to retire: this lesson is not in use.")
    harmful = no or ("" if waiting or is_served else "There is nothing to quarantine here.")
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
