"""No planted secret reaches the database or the answer, whatever part of a request contains it (D7)."""

import json
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from psycopg import sql
from rest_framework.test import APIClient

from memory.runs.models import Trajectory
from tests.factories import bearer, make_api_key, make_trajectory
from tests.memory.synthetic_secrets import Planted, plant_secrets

PLANTED = plant_secrets(seed=11, per_kind=2)


def every_stored_text() -> str:
    """Return all rows of all tables as text, binary columns decoded."""
    texts = []
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(model._meta.db_table)))
            for row in cursor.fetchall():
                texts += [
                    bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | memoryview) else str(value)
                    for value in row
                ]
    return "\n".join(texts)


def survivors(text: str) -> list[Planted]:
    """Return the secrets that can still be read, as they were or as JSON."""
    return [p for p in PLANTED if p.needle in text or json.dumps(p.needle)[1:-1] in text]


def run_with_secrets() -> dict[str, Any]:
    """A run with a secret in every member that takes free text, values and keys."""
    texts = [p.text for p in PLANTED]
    return {
        "task": texts[0],
        "summary": "\n".join(texts),
        "mistakes": texts[:20],
        "successes": texts[20:40],
        "steps": [
            {
                "thought": text,
                "action": {
                    "name": "send",
                    "arguments": {"body": text, text[:60]: [text], "password": "hunter2-hunter2"},
                },
                "observation": text,
                "error": text,
            }
            for text in texts
        ],
        "metadata": {"note": texts, "nested": {text: text for text in texts}},
        "outcome": "failure",
    }


@pytest.mark.django_db
def test_a_secret_that_was_stored_would_be_found() -> None:
    make_trajectory(summary=PLANTED[3].text, metadata={PLANTED[4].text: [PLANTED[5].text]})

    assert {p.needle for p in survivors(every_stored_text())} >= {p.needle for p in PLANTED[3:6]}


@pytest.mark.django_db
def test_recorded_run_holds_no_secret() -> None:
    client = APIClient(headers=bearer(make_api_key().token))

    answer = client.post("/api/v1/trajectories", run_with_secrets(), format="json", headers={"Idempotency-Key": "once"})

    assert answer.status_code == 201, answer.content
    stored = every_stored_text()
    assert "[REDACTED:" in stored
    assert survivors(stored) == []
    assert survivors(answer.content.decode()) == []
    assert "hunter2-hunter2" not in stored


@pytest.mark.django_db
def test_recorded_run_counts_redactions() -> None:
    client = APIClient(headers=bearer(make_api_key().token))

    client.post("/api/v1/trajectories", run_with_secrets(), format="json")

    counts = Trajectory.objects.get().redactions
    assert sum(counts.values()) > len(PLANTED)
    assert {"github_token", "email", "card", "iban", "private_key", "password"} <= set(counts)


@pytest.mark.django_db
def test_question_and_lesson_hold_no_secret() -> None:
    client = APIClient(headers=bearer(make_api_key().token))

    for planted in PLANTED[:60]:
        client.post("/api/v1/retrieve", {"task": planted.text}, format="json")
        client.post("/api/v1/heuristics", {"trigger": planted.text, "guideline": planted.text}, format="json")

    stored = every_stored_text()
    assert stored.count("[REDACTED:") >= 60
    assert survivors(stored) == []
