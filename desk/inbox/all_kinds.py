"""The kinds of items in the inbox, in the order of their groups in the list."""

from typing import Any

from desk.inbox.blocks import BLOCKS
from desk.inbox.calls import CALLS
from desk.inbox.cards import CARDS
from desk.inbox.changes import CHANGES
from desk.inbox.harmful import HARMFUL
from desk.inbox.kinds import ItemKind
from desk.inbox.lessons import LESSONS, SECOND_APPROVALS
from desk.inbox.rule_changes import RULE_CHANGES
from desk.inbox.suggestions import SUGGESTIONS
from desk.inbox.tools import TOOLS

KINDS: tuple[ItemKind, ...] = (
    CALLS,
    RULE_CHANGES,
    TOOLS,
    CHANGES,
    SECOND_APPROVALS,
    HARMFUL,
    BLOCKS,
    LESSONS,
    SUGGESTIONS,
    CARDS,
)


def find_kind(name: str, user: Any) -> ItemKind | None:
    """Return a kind by its name, if this person may see it."""
    return next((kind for kind in list_kinds(user) if kind.name == name), None)


def list_kinds(user: Any) -> list[ItemKind]:
    """Return the kinds that a person may see."""
    return [kind for kind in KINDS if user.has_perm(kind.permission)]
