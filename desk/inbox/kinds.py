"""What can wait in the inbox. Each kind of item is one class.

To add a kind, derive a class from `ItemKind`, give it a name, a label, the model of its rows and the permissions to see
and to decide, and write:

- `waiting`: the rows that wait; `order` is the one in which they should be decided;
- `write_row`: one of them as a line of the list;
- `draw_item`: one of them as a `Pane`: the template of its words, the buttons of the bar and the tabs beside it;
- `carry_out`: do what a button says and return `Done`. If nothing was decided because the form has to be shown again
  (a missing reason, a preview), return the `Pane` to show; if the service refuses, let its error through.

Then list it in `desk/inbox/all_kinds.py`. `undo_review` is needed only by kinds whose decisions are reviews that can be
undone, `hold` and `release` only by those whose items can be claimed. `queue` leaves out what is snoozed, what is in an
archived project, and what this person may not see; comments, assignment and snoozing work for every kind that
`is_discussed`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qsl
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, Min, Model, OuterRef, QuerySet
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst

from desk.lessons.queue import read_projects
from desk.shell.requests import read_id
from memory.discussion.models import ItemState
from memory.errors import MemoryAppError, TooLateToUndo
from memory.projects.access import has_role, narrow_to_projects
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from memory.review.models import Review, ReviewSubject
from memory.rows import find_row

Waiting = TypeVar("Waiting", bound=Model)


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemRow:
    """An item as a line of the list: what it is about, what would follow, and why it stands where it does."""

    kind: str
    id: UUID
    title: str
    then: str = ""
    why: str = ""
    flags: Sequence[str] = ()
    since: datetime
    held_by: str = ""  # another person who has claimed it
    assignee: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Button:
    """A button of the bar. A key has the same place and meaning in every kind; what cannot be done now is disabled.

    `asks` is what the key leads to first: "reason", "edit" or "answer"; or a tab, if its button stands there.
    """

    key: str
    decision: str
    label: str
    asks: str = ""
    tone: str = ""  # "good" or "bad"
    stays: bool = False  # the item is still shown afterwards
    disabled: str = ""  # why it cannot be used now

    @property
    def tab(self) -> str:
        """The tab in which its button stands, if it is not in the bar."""
        return "" if self.asks in ("reason", "edit", "answer") or self.disabled else self.asks


@dataclass(frozen=True, kw_only=True, slots=True)
class Tab:
    """A part of what is shown beside the words. Without a template it is fetched when it is opened."""

    name: str
    label: str
    template: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pane:
    """One item: its words, the form with which a person decides, and what is shown beside it."""

    kind: "ItemKind"
    id: UUID
    sha256: str  # of what is decided on; drafts are kept under it
    heading: str
    template: str
    context: Mapping[str, Any]
    page: str = ""  # of what it belongs to, with its history
    actions: Sequence[Button] = ()
    tabs: Sequence[Tab] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)  # sent with every decision
    reasons: Sequence[tuple[str, str]] = ()  # what is kept, and what the button says
    form: Any = None  # of this kind, where it has fields of its own
    note: str = ""  # why this person cannot decide
    held_by: str = ""
    held_until: datetime | None = None
    can_take_over: bool = False

    @property
    def key(self) -> str:
        return f"{self.kind.name}/{self.id}"

    @property
    def address(self) -> str:
        return reverse("admin:inbox_item", args=[self.kind.name, self.id])


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What a decision did, in a sentence; `undo` is what `ItemKind.undo` needs to undo it."""

    said: str
    undo: str = ""
    stays: bool = False


def read_reason(data: Any, *, needed: bool = False) -> str:
    """Return the reason that a form gives: one of the list, one in the person's words, or both.

    Raises:
        MemoryAppError: there is none, though it is needed.
    """
    reason = ": ".join(part for part in (data.get("reason_code", ""), data.get("reason", "").strip()) if part)
    if needed and not reason:
        raise MemoryAppError("Choose a reason or write one; it is kept with the decision.")
    return reason.replace("\x00", "")


class ItemKind(ABC):
    """A kind of item that waits for a person's decision."""

    name: ClassVar[str]  # in addresses
    noun: ClassVar[str]  # "lesson"
    label: ClassVar[str]  # "Lessons"
    model: ClassVar[type[Any]]
    related: ClassVar[tuple[str, ...]] = ()  # what is read with a row
    order: ClassVar[tuple[Any, ...]] = ("created_at", "id")
    permission: ClassVar[str]  # to see it
    decides: ClassVar[str] = "memory.review_heuristic"  # the permission to decide on it, as a reviewer of its project
    right: ClassVar[str] = "review heuristics"  # the same as people read it
    reviews: ClassVar[tuple[str, ...]] = ()  # the kinds of review that its decisions leave
    subject: ClassVar[str] = ""  # what comments are kept under, where that is another kind's name
    waits_in_archived: ClassVar[bool] = False
    is_discussed: ClassVar[bool] = True  # whether people comment on its items, assign and snooze them
    since: ClassVar[Any] = "created_at"  # since when an item waits, as a column or an expression

    @property
    def title(self) -> str:
        return capfirst(self.noun)

    @property
    def table(self) -> str:
        """The list of its rows among the pages of tables."""
        return f"{self.model._meta.app_label}_{self.model._meta.model_name}_change"

    @property
    def not_allowed(self) -> str:
        return f"To decide, you need the permission “{self.right}” and the role of a reviewer in this project."

    def may_decide(self, user: Any, item: Any) -> bool:
        """Tell whether a person may decide on an item, by permission and by role."""
        return user.has_perm(self.decides) and has_role(user, item.project_id, ProjectMembership.Role.REVIEWER)

    # ── What waits ──
    def waiting(self) -> QuerySet[Any]:
        """Return all rows that wait, before they are narrowed to a person."""
        raise NotImplementedError  # where `queue` says it otherwise

    def visible(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        """Keep the rows that a person may see."""
        return narrow_to_projects(rows, user)

    def queue(self, user: Any, query: str) -> QuerySet[Any]:
        """Return those that wait for this person. `query` holds the filters, as in the page's address."""
        rows = self.waiting()
        if not self.waits_in_archived:
            rows = rows.exclude(project__archived_at__lte=timezone.now())
        return self.arrange(read_projects(self.visible(rows, user), query), user, query)

    def arrange(self, rows: QuerySet[Waiting], user: Any, query: str) -> QuerySet[Waiting]:
        """Leave out what is snoozed, or keep what the address asks for: what is snoozed, or assigned to the person."""
        states = ItemState.objects.filter(kind=self.name, object_id=OuterRef("pk"))
        asleep, wanted = Exists(states.filter(snoozed_until__gt=Now())), dict(parse_qsl(query)).get("show")
        if not self.is_discussed:
            return rows.none() if wanted in ("snoozed", "mine") else rows
        if wanted == "snoozed":
            return rows.filter(asleep)
        mine = rows.filter(Exists(states.filter(assignee=user.pk))) if wanted == "mine" else rows
        return mine.filter(~asleep)

    def count(self, user: Any, query: str) -> int:
        """Return how many wait for this person."""
        return self.queue(user, query).count()

    def measure(self, user: Any, query: str) -> tuple[int, datetime | None]:
        """Return how many wait for this person, and since when the oldest does. One query."""
        figures = self.queue(user, query).order_by().aggregate(count=Count("pk"), oldest=Min(self.since))
        return figures["count"], figures["oldest"]

    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        """Return the first items that wait, in their order."""
        waiting = self.queue(user, query).select_related(*self.related).order_by(*self.order)
        return [self.write_row(item) for item in waiting[:limit]]

    @abstractmethod
    def write_row(self, item: Any) -> ItemRow:
        """Write an item as a line of the list."""

    # ── One item ──
    def find(self, user: Any, id: UUID) -> Any:
        """Return the row of an item, with its `project_id`; None if there is none that this person may see."""
        return find_row(self.visible(self.model._default_manager.select_related(*self.related), user).filter(pk=id))

    def draw(self, user: Any, id: UUID) -> Pane | None:
        """Return an item, its first tab included; None if there is none that this person may see."""
        item = self.find(user, id)
        return None if item is None else self.draw_item(item, user=user)

    @abstractmethod
    def draw_item(self, item: Any, *, user: Any) -> Pane:
        """Return an item with the words, the buttons and the tabs."""

    def draw_tab(self, user: Any, id: UUID, name: str) -> Tab | None:
        """Return a tab that `draw` left to be fetched."""
        return None

    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        """Carry out a decision; return a pane if it has to be shown again first, None if there is no such item.

        Raises:
            PermissionDenied: the person may not decide on it.
            MemoryAppError: the service refuses.
        """
        item = self.find(user, id)
        if item is None:
            return None
        if not self.may_decide(user, item):
            raise PermissionDenied(f"Nothing was changed. {self.not_allowed}")
        return self.carry_out(item, user=user, data=data)

    @abstractmethod
    def carry_out(self, item: Any, *, user: Any, data: Any) -> Done | Pane:
        """Do what a button says. The person may decide."""

    def undo(self, user: Any, token: str, *, by: Actor) -> str:
        """Undo a decision by what `Done.undo` said, which is the id of its review; return a sentence.

        Raises:
            MemoryAppError: it cannot be undone any more.
        """
        reviews = narrow_to_projects(Review.objects.filter(kind__in=self.reviews), user)
        id = read_id(token)
        review = find_row(reviews.filter(pk=id)) if id else None
        if review is None:
            raise TooLateToUndo(f"This decision no longer exists. Look at the history of this {self.noun}.")
        return self.say_undone(self.undo_review(review, by=by))

    def undo_review(self, review: Review, *, by: Actor) -> object:
        """Undo the decision that a review records; return its subject."""
        raise NotImplementedError

    def say_undone(self, subject: object) -> str:
        """Say what undoing a decision led to."""
        return "Undone. It is waiting for a decision again; both decisions stay on record."

    def hold(self, user: Any, id: UUID) -> tuple[str, datetime] | None:
        """Claim an item for a person who reads it; return the name of who has it now and until when."""
        return None

    def release(self, user: Any, id: UUID) -> None:  # noqa: B027  # most kinds have no claims
        """Give up a person's claim."""


def find_undo(subject: ReviewSubject, user: Any) -> str:
    """Return what undoes the person's decision that was made just now."""
    newest = subject.reviews.first()
    return str(newest.pk) if newest is not None and newest.reviewer_user_id == user.pk else ""
