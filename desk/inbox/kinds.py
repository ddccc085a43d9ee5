"""What can wait in the inbox. Each kind of item is one class.

To add a kind, derive a class from `ItemKind`, give it a name, a label and the permissions to see and to decide, and
write:

- `waiting` and `list_rows`: the items that wait, and in the order in which they should be decided, one `ItemRow` each;
- `find`: one of them as a row with its `project_id`, if the person may see it;
- `draw`: one of them as a `Pane`: the template of its words, the buttons of the bar and the tabs beside it;
- `decide`: carry out what a button says and return `Done`. If nothing was decided because the form has to be shown
  again (a missing reason, a preview), return the `Pane` to show; if the service refuses, let its error through.

Then list it in `desk/inbox/all_kinds.py`. `undo`, `hold` and `release` are needed only by kinds whose decisions can be
undone or whose items can be claimed. `queue` leaves out what is snoozed, what is in an archived project, and what this
person may not see; comments, assignment and snoozing work for every kind that `is_discussed`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qsl
from uuid import UUID

from django.db.models import Count, Exists, Min, Model, OuterRef, QuerySet
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst

from desk.lessons.queue import read_projects
from memory.discussion.models import ItemState
from memory.projects.access import has_role, narrow_to_projects
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership

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
    page: str  # the address of its own page
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


def read_reason(data: Any) -> str:
    """Return the reason that a form gives: one of the list, one in the person's words, or both."""
    return ": ".join(part for part in (data.get("reason_code", ""), data.get("reason", "").strip()) if part)


class ItemKind(ABC):
    """A kind of item that waits for a person's decision."""

    name: ClassVar[str]  # in addresses
    noun: ClassVar[str]  # "lesson"
    label: ClassVar[str]  # "Lessons"
    permission: ClassVar[str]  # to see it
    decides: ClassVar[str] = "memory.review_heuristic"  # the permission to decide on it, as a reviewer of its project
    subject: ClassVar[str] = ""  # what comments are kept under, where that is another kind's name
    waits_in_archived: ClassVar[bool] = False
    is_discussed: ClassVar[bool] = True  # whether people comment on its items, assign and snooze them
    since: ClassVar[Any] = "created_at"  # since when an item waits, as a column or an expression

    @property
    def title(self) -> str:
        return capfirst(self.noun)

    def may_decide(self, user: Any, project_id: UUID) -> bool:
        """Tell whether a person may decide on items of a project, by permission and by role."""
        return user.has_perm(self.decides) and has_role(user, project_id, ProjectMembership.Role.REVIEWER)

    def waiting(self) -> QuerySet[Any]:
        """Return those that wait for anybody."""
        raise NotImplementedError  # where `queue` says it otherwise

    def visible(self, rows: QuerySet[Any], user: Any) -> QuerySet[Any]:
        """Keep the rows that a person may see."""
        return narrow_to_projects(rows, user)

    def queue(self, user: Any, query: str) -> QuerySet[Any]:
        """Return those that wait for this person."""
        rows = self.waiting()
        if not self.waits_in_archived:
            rows = rows.exclude(project__archived_at__lte=timezone.now())
        return self.arrange(read_projects(self.visible(rows, user), query), user, query)

    def count(self, user: Any, query: str) -> int:
        """Return how many wait for this person."""
        return self.queue(user, query).count()

    def measure(self, user: Any, query: str) -> tuple[int, datetime | None]:
        """Return how many wait for this person, and since when the oldest does. One query."""
        waiting = self.queue(user, query).order_by()
        found = waiting.aggregate(count=Count("pk"), oldest=Min(self.since))
        return found["count"], found["oldest"]

    @abstractmethod
    def list_rows(self, user: Any, query: str, *, limit: int) -> list[ItemRow]:
        """Return the first items that wait, in their order. `query` holds the filters, as in the page's address."""

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

    @abstractmethod
    def find(self, user: Any, id: UUID) -> Any:
        """Return the row of an item, with its `project_id`; None if there is none that this person may see."""

    @abstractmethod
    def draw(self, user: Any, id: UUID) -> Pane | None:
        """Return an item, its first tab included; None if there is none that this person may see."""

    @abstractmethod
    def decide(self, user: Any, id: UUID, data: Any) -> Done | Pane | None:
        """Carry out a decision; return a pane if it has to be shown again first, None if there is no such item.

        Raises:
            MemoryAppError: the service refuses.
        """

    def draw_tab(self, user: Any, id: UUID, name: str) -> Tab | None:
        """Return a tab that `draw` left to be fetched."""
        return None

    def undo(self, user: Any, token: str, *, by: Actor) -> str:
        """Undo a decision by what `Done.undo` said; return a sentence.

        Raises:
            MemoryAppError: it cannot be undone any more.
        """
        raise NotImplementedError

    def undo_address(self, token: str) -> str:
        """Return where an item's own page asks for `undo`."""
        return reverse("admin:inbox_undo")

    def hold(self, user: Any, id: UUID) -> tuple[str, datetime] | None:
        """Claim an item for a person who reads it; return the name of who has it now and until when."""
        return None

    def release(self, user: Any, id: UUID) -> None:  # noqa: B027  # most kinds have no claims
        """Give up a person's claim."""
