"""Let the database itself confine a request to its project (reliability D12).

With ERL_TENANT_ROLE each transaction of a request runs as that role, which sees and writes only rows of one project: a
query that forgets its filter finds nothing of other projects. A statement outside a transaction gets one of its own.
All of it ends with the transaction, so it also works behind a pooler.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

SCHEMA = "erl_tenant, "
_HOLD = (
    "SELECT set_config('role', %s, true), set_config('erl.project_id', %s, true), set_config('search_path', "
    f"'{SCHEMA}' || replace(current_setting('search_path'), '{SCHEMA}', ''), true)"
)
_RELEASE = (
    "SELECT set_config('role', 'none', true), set_config('erl.project_id', '', true), "
    f"set_config('search_path', replace(current_setting('search_path'), '{SCHEMA}', ''), true)"
)
_OF_DJANGO = ("SAVEPOINT", "RELEASE", "ROLLBACK")  # Django sends them where no other statement is allowed


class Confinement:
    """The project of a request, and the part of the transaction in which the database knows it."""

    def __init__(self, project_id: UUID, *, role: str) -> None:
        self.project_id = project_id
        self.role = role
        self._told_in: object = None

    def hold(self) -> None:
        """Tell the database, unless it knows in this transaction; it forgets with the savepoint it was told in."""
        if self._told_in is None or self._told_in not in connection.atomic_blocks:
            self._run(_HOLD, [self.role, str(self.project_id)])
            # A rollback of this block takes the settings back too, so they are known only while it lasts.
            self._told_in = connection.atomic_blocks[-1]

    def release(self) -> None:
        """Take back the role for the rest of the transaction."""
        # What was told in a savepoint that is released still holds, so it does not matter where it was told.
        # After an error PostgreSQL takes no statement before the rollback, which undoes the settings anyway.
        if self._told_in is not None and connection.in_atomic_block and not connection.needs_rollback:
            self._run(_RELEASE, [])
        self._told_in = None

    def guard(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """Run a statement of Django as the role."""
        if sql.startswith(_OF_DJANGO):
            return execute(sql, params, many, context)
        with held():
            return execute(sql, params, many, context)

    def _run(self, statement: str, parameters: list[str]) -> None:
        with connection.wrap_database_errors:
            # Past Django's cursor, whose wrappers would call `guard` again.
            connection.connection.execute(statement, parameters)


_current: ContextVar[Confinement | None] = ContextVar("confinement", default=None)


@contextmanager
def confined(project_id: UUID) -> Iterator[None]:
    """Confine all statements of this thread to one project, if ERL_TENANT_ROLE is set."""
    if not settings.ERL_TENANT_ROLE:
        yield
        return
    confinement = Confinement(project_id, role=settings.ERL_TENANT_ROLE)
    token = _current.set(confinement)
    try:
        with connection.execute_wrapper(confinement.guard):
            yield
    finally:
        _current.reset(token)
        confinement.release()


@contextmanager
def held() -> Iterator[None]:
    """Run the statements of this block as the role, if this thread is confined to a project."""
    confinement = _current.get()
    if confinement is None:
        yield
    elif connection.in_atomic_block:
        confinement.hold()
        yield
    else:
        with transaction.atomic():
            confinement.hold()
            yield


@contextmanager
def unconfined() -> Iterator[None]:
    """Run the statements of this block as the login role: about what is no row, and so of no project."""
    confinement = _current.get()
    if confinement is None:
        yield
        return
    token = _current.set(None)
    try:
        confinement.release()
        yield
    finally:
        _current.reset(token)  # the next statement is confined again


def is_held() -> bool:
    """Tell whether this thread is confined to a project."""
    return _current.get() is not None
