"""What `manage.py doctor` finds, and how it asks the database."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import connection


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at. `todo` says what to do where it is not well."""

    name: str
    status: Status
    message: str
    todo: str = ""


def ok(name: str, message: str) -> Finding:
    return Finding(name=name, status=Status.OK, message=message)


def warning(name: str, message: str, todo: str) -> Finding:
    return Finding(name=name, status=Status.WARNING, message=message, todo=todo)


def failure(name: str, message: str, todo: str) -> Finding:
    return Finding(name=name, status=Status.FAILURE, message=message, todo=todo)


def rows(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def show(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0])
