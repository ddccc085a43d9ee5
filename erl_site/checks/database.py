"""Check the database server. Runs with `migrate` and `check --database default`."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register

from erl_site.preflight import find_faults


@register(Tags.database)
def check_database(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the database can be reached and has what ERL needs."""
    return [Error(fault, id="erl.database.E001") for alias in databases or () for fault in find_faults(alias)]
