"""Ends a piece of work at one of its SQL statements or failpoints, as the death of its process would."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import connection

from memory.failpoints import NAMES, armed


class Crash(BaseException):
    """The process is gone; nothing in it may answer, tidy up or write anything any more."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Before or after a statement, counted from 1, or at a failpoint."""

    statement: int = 0
    before: bool = True
    failpoint: str = ""

    def __str__(self) -> str:
        return self.failpoint or f"{'before' if self.before else 'after'} statement {self.statement}"


@dataclass(kw_only=True)
class Trace:
    """What a piece of work came by."""

    statements: list[str] = field(default_factory=list)
    failpoints: list[str] = field(default_factory=list)

    def points(self) -> list[Point]:
        """Return every place at which the work can end."""
        numbers = range(1, len(self.statements) + 1)
        return [
            *(Point(statement=number, before=before) for number in numbers for before in (True, False)),
            *(Point(failpoint=name) for name in dict.fromkeys(self.failpoints)),
        ]


@contextmanager
def crash_at(point: Point | None) -> Iterator[Trace]:
    """Cut the connection at a point, and let nothing execute afterwards. None only looks on."""
    trace = Trace()
    gone = False

    def cut() -> None:
        nonlocal gone
        gone = True
        if connection.connection is not None:
            connection.connection.close()
        raise Crash

    def execute(proceed: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if gone:
            raise Crash
        trace.statements.append(sql)
        here = point is not None and len(trace.statements) == point.statement
        if here and point is not None and point.before:
            cut()
        result = proceed(sql, params, many, context)
        if here:
            cut()
        return result

    def reach(name: str) -> None:
        if gone:
            raise Crash
        trace.failpoints.append(name)
        if point is not None and name == point.failpoint:
            cut()

    with ExitStack() as stack:
        for name in NAMES:
            stack.enter_context(armed(name, partial(reach, name)))
        stack.enter_context(connection.execute_wrapper(execute))
        yield trace
