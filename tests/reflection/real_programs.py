"""Calls whose answers come from the real interpreters, databases and programs, so that the wordings are theirs."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.reflection.rules_runs import call

SCHEMA = (
    "CREATE TABLE customer (customer_id INTEGER, full_name TEXT);"
    "CREATE TABLE invoice (invoice_id INTEGER, customer_id INTEGER, total REAL);"
    "INSERT INTO customer VALUES (1, 'Ada'); INSERT INTO invoice VALUES (7, 1, 12.5);"
)


def python(code: str) -> dict[str, Any]:
    """A call of a tool that runs Python code in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    return call("python", done.stdout + done.stderr, code=code)


def sql(query: str) -> dict[str, Any]:
    """A call of a tool that runs a query in SQLite."""
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(SCHEMA)
        try:
            answer = str(connection.execute(query).fetchall())
        except sqlite3.Error as refusal:
            answer = f"Error: {refusal}"
    return call("sql", answer, query=query)


def shell(command: str, folder: Path) -> dict[str, Any]:
    """A call of a shell."""
    done = subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, text=True, check=False, timeout=60, cwd=folder
    )
    return call("bash", done.stdout + done.stderr, command=command)
