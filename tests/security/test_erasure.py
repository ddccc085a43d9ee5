"""Erased data is gone from tables, broker, logs and restored backups (C10, F21)."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from erl_site.embedded import valkey
from memory.api.models import IdempotencyRecord
from memory.curation.evidence import add_evidence
from memory.heuristics.models import Heuristic
from memory.heuristics.text import Citation
from memory.mistakes.decisions import approve_card
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from memory.trust.models import Erasure
from reflection.consolidation.models import ConsolidationRun, Suggestion, SuggestionEvidence
from reflection.jobs.execution import Outcome
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.models import ModelCall
from reflection.reflectors.reflections import run_reflection
from tests.chaos.profile import pick, report
from tests.factories import approve_as_read, bearer, make_api_key, make_heuristic, make_project, make_trajectory
from tests.reflection.scripted import make_completion
from tests.scripted_answers import lesson
from tests.servers import HOME

pytestmark = pytest.mark.django_db

CANARIES = pick(8, 100)
BY = Actor(label="user:ops")


def every_row() -> str:
    """Return every row of every table as text."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL timezone = 'UTC'")
        cursor.execute("SET LOCAL bytea_output = 'escape'")
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        found = []
        for (table,) in [*cursor.fetchall(), ("pg_stats",)]:  # what the planner knows of the values
            cursor.execute(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t")  # noqa: S608
            found.append(cursor.fetchone()[0])
    return " ".join(found)


def write_task(canary: str) -> str:
    """Write a task of several sentences, as people put them, which is asked for in parts."""
    return (
        f"The customer {canary} wants to cancel the reservation to Lisbon and get the money back. "
        f"Look up the booking of {canary} first; then check whether the fare can be refunded. "
        f"Afterwards send {canary} a confirmation, and also note the reason in the file."
    )


def live_through(client: APIClient, canary: str, number: int) -> str:
    """Leave traces of a run in as many places as possible; return its id."""
    task = write_task(canary)
    asked = client.post(
        "/api/v1/retrieve", {"task": task}, format="json", headers={"Idempotency-Key": f"ask-{number}"}
    ).json()
    assert len(asked["subtasks"]) > 1
    body = {
        "task": task,
        "task_id": f"family-{number}",
        "steps": [{"thought": canary, "action": {"name": "look", "arguments": {"who": canary}}, "observation": canary}],
        "summary": canary,
        "outcome": "failure",
        "metadata": {canary: canary},
        "mistakes": [canary],
        "mistake_cards": [{"mistake_type": f"about {canary}", "correct_decision": f"Ask {canary} first."}],
        "tags": [canary],
        "retrieval_id": asked["retrieval_id"],
    }
    answer = client.post("/api/v1/trajectories", body, format="json", headers={"Idempotency-Key": f"record-{number}"})
    assert answer.status_code == 201, answer.content
    return str(answer.json()["id"])


def ask_alike(client: APIClient, number: int) -> dict[str, Any]:
    """Ask for the lessons of a similar task, whose answer is kept for repeated requests."""
    body = {"task": "A customer wants to cancel a reservation to Porto and get the money back.", "top_k": 50}
    headers = {"Idempotency-Key": f"alike-{number}"}
    answer: dict[str, Any] = client.post("/api/v1/retrieve", body, format="json", headers=headers).json()
    return answer


def approve_words(card: MistakeCard) -> None:
    assert card.current_revision is not None
    approve_card(card, by=Actor(label="user:ana"), content_sha256=card.current_revision.content_sha256)


def break_insert(canary: str) -> None:
    """Let PostgreSQL refuse a row, which it would write into its log."""
    project = Project.objects.get()
    with pytest.raises(IntegrityError):
        Trajectory.objects.create(project=project, task=write_task(canary), outcome="perhaps")


def copy_canary(step: str, request: ChatRequest) -> ChatAnswer:
    word = next(word.strip(".,;\"'") for word in request.user.split() if "canary" in word)
    return make_completion(
        text=json.dumps(
            lesson(
                trigger=f"When {word} asks", action=f"Look {word} up first.", not_when="", tools=[], evidence_steps=[1]
            )
        )
    )


def read_files(home: Path) -> str:
    """Return what all files under a home hold, except PostgreSQL's data: docs/reliability.md says what holds there."""
    data = (home / "postgres" / "data").resolve()
    files = [path for path in home.rglob("*") if path.is_file() and data not in path.resolve().parents]
    assert any(path.name == "postgres.log" for path in files)
    return " ".join(path.read_text(errors="replace") for path in files)


@pytest.mark.django_db(transaction=True)
def test_erased_canaries_are_nowhere(settings: Any, capfd: pytest.CaptureFixture[str], broker: str) -> None:
    settings.ERL_REFLECTOR, settings.ERL_LLM_PROVIDER, settings.ERL_LLM_MODEL = "llm", "openai", "m"
    settings.ERL_PENDING_PROPOSALS_PER_CLIENT = 0
    client = APIClient(headers=bearer(make_api_key().token))
    canaries = [f"canary{number:04d}zq" for number in range(CANARIES)]
    ids = [live_through(client, canary, number) for number, canary in enumerate(canaries)]
    while run_reflection(owner="test", ask_model=copy_canary).outcome != Outcome.NOTHING:
        pass
    assert Heuristic.objects.count() == CANARIES
    for heuristic in Heuristic.objects.all():
        approve_as_read(heuristic, by=Actor(label="user:ana"), reason="Right.")
    for card in MistakeCard.objects.proposed():
        approve_words(card)
    alike = ask_alike(client, 0)
    for canary in canaries:
        break_insert(canary)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as PostgreSQL does by itself now and then
    before = sum(canary in every_row() for canary in canaries)

    for id in ids:
        assert client.delete(f"/api/v1/trajectories/{id}").status_code == 204
    call_command("erase", "--replay", "--vacuum", stdout=StringIO())

    rows, files = every_row(), read_files(HOME)
    logs = "".join(capfd.readouterr())
    with redis.Redis(unix_socket_path=str(valkey.socket_path(HOME / "valkey"))) as at_broker:
        messages = b" ".join(at_broker.dump(key) or b"" for key in at_broker.keys("*"))
    left = {
        "rows": sum(canary in rows for canary in canaries),
        "broker": sum(canary.encode() in messages for canary in canaries),
        "logs": sum(canary in logs for canary in canaries),
        "files": sum(canary in files for canary in canaries),
    }
    replays = {
        client.post(
            "/api/v1/trajectories",
            {"task": "x"},
            format="json",
            headers={"Idempotency-Key": f"record-{number}"},
        ).status_code
        for number in range(CANARIES)
    }
    report("F21", canaries=CANARIES, present_before=before, **{f"left_in_{place}": n for place, n in left.items()})
    assert any("canary" in item["matched_task"] for item in alike["items"])
    assert before == CANARIES, "the canaries left no traces to erase"
    assert left == {"rows": 0, "broker": 0, "logs": 0, "files": 0}
    assert replays <= {409, 410}
    assert Erasure.objects.count() == CANARIES


def test_wording_that_quotes_the_run_goes_and_the_rest_is_reviewed_again() -> None:
    project = make_project()
    erased = make_trajectory(project=project, task="Cancel the reservation of canary0001zq")
    other = make_trajectory(project=project)
    heuristic = make_heuristic(trajectory=erased, source_task=erased.task)
    add_evidence(heuristic, other, citations=[Citation(first_step=1, last_step=1)])
    approve_as_read(heuristic, by=BY)

    result = erase_trajectory(erased, by=BY)

    heuristic.refresh_from_db()
    assert (result.heuristics_kept, result.heuristics_reworded) == (1, 1)
    assert heuristic.status == Heuristic.Status.PROPOSED
    assert heuristic.current_revision is not None
    assert heuristic.current_revision.guideline == "Check the fare class first."
    assert "canary0001zq" not in every_row()


def test_answer_that_names_the_run_as_similar_is_not_given_again() -> None:
    run = make_trajectory()
    answer = Retrieval.objects.create(
        project=run.project,
        task="Another",
        mode=Retrieval.Mode.ERL,
        top_k=1,
        budget_tokens=1,
        items=[{"heuristic": str(run.pk), "matched_run": str(run.pk), "reason": "Like canary0003zq."}],
    )
    stored = IdempotencyRecord.objects.create(
        project=run.project,
        client="agent",
        key="1",
        fingerprint=b"1",
        status_code=200,
        resource_id=answer.pk,
        body=b"canary0003zq",
        expires_at=timezone.now() + timedelta(days=1),
    )

    erase_trajectory(run, by=BY)

    stored.refresh_from_db()
    assert stored.erased_at is not None
    assert "canary0003zq" not in every_row()
    assert Retrieval.objects.get().task == "Another"


def test_record_in_answers_loses_the_cards_of_the_run() -> None:
    client = APIClient(headers=bearer(make_api_key().token))
    card = {"mistake_type": "wrong_fare", "correct_decision": "Ask canary0004zq for the fare."}
    body = {"task": "Cancel", "task_id": "flights", "steps": [], "outcome": "failure", "mistake_cards": [card]}
    run = client.post("/api/v1/trajectories", body, format="json").json()["id"]
    approve_words(MistakeCard.objects.get())
    asked = client.post("/api/v1/retrieve", {"task": "Rebook", "task_id": "flights"}, format="json").json()

    client.delete(f"/api/v1/trajectories/{run}")

    assert "canary0004zq" in asked["context"]
    assert "canary0004zq" not in every_row()


def test_lesson_proposed_with_the_run_s_task_stays_without_it() -> None:
    run = make_trajectory(task="Cancel the reservation of canary0005zq")
    lesson = make_heuristic(trajectory=make_trajectory(project=run.project), source_task=run.task)

    erased = erase_trajectory(run, by=BY)

    lesson.refresh_from_db()
    assert (erased.heuristics_deleted, erased.heuristics_reworded) == (0, 1)
    assert lesson.current_revision is not None
    assert "canary0005zq" not in every_row()


def test_what_a_consolidation_made_of_the_run_goes_too() -> None:
    run = make_trajectory()
    kept = make_heuristic(trajectory=make_trajectory(project=run.project))
    pass_over = ConsolidationRun.objects.create(project=run.project, payload={"until": timezone.now().isoformat()})
    ModelCall.objects.create(
        project=run.project,
        job=pass_over,
        step="compare",
        prompt_sha256="0" * 64,
        provider="openai",
        model="m",
        response="canary0002zq",
    )
    suggestion = Suggestion.objects.create(
        project=run.project,
        run=pass_over,
        kind=Suggestion.Kind.NARROW,
        heuristic=kept,
        content_sha256="0" * 64,
        text={"guideline": "canary0002zq"},
        reason="It says canary0002zq.",
        method="llm",
        fingerprint="1" * 64,
    )
    SuggestionEvidence.objects.create(project=run.project, suggestion=suggestion, trajectory=run, quote="canary0002zq")

    erase_trajectory(run, by=BY)

    assert "canary0002zq" not in every_row()
    assert Heuristic.objects.filter(pk=kept.pk).exists()


def test_second_erasure_changes_nothing() -> None:
    run = make_trajectory()
    other = make_trajectory(project=run.project)
    output = StringIO()

    call_command("erase", str(run.pk), stdout=output)
    call_command("erase", str(run.pk), stdout=output)

    assert (
        output.getvalue().splitlines()[-1].startswith("Erased 0 runs and 0 lessons. Of 1 other runs nothing was left.")
    )
    assert list(Trajectory.objects.all()) == [other]


def test_id_of_no_run_is_refused_before_anything_is_erased() -> None:
    run = make_trajectory()

    with pytest.raises(CommandError, match="Nothing was erased"):
        call_command("erase", str(run.pk), str(UUID(int=0)))

    assert Trajectory.objects.filter(pk=run.pk).exists()


def test_ledger_for_a_bad_path_says_so(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be written"):
        call_command("erase", "--export", str(tmp_path / "no" / "ledger.txt"))


def test_exported_ledger_erases_what_a_backup_restored(tmp_path: Path) -> None:
    run = make_trajectory()
    kept = {field.attname: getattr(run, field.attname) for field in Trajectory._meta.concrete_fields}
    ledger = tmp_path / "erasures.txt"
    call_command("erase", str(run.pk), stdout=StringIO())
    call_command("erase", "--export", str(ledger), stdout=StringIO())
    Trajectory.objects.create(**kept)  # as a restored backup has it

    call_command("erase", "--replay", str(ledger), stdout=StringIO())

    assert not Trajectory.objects.exists()


def test_ledger_goes_through_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_trajectory()
    kept = {field.attname: getattr(run, field.attname) for field in Trajectory._meta.concrete_fields}
    printed = StringIO()
    call_command("erase", str(run.pk), stdout=StringIO())
    call_command("erase", "--export", "-", stdout=printed)
    Trajectory.objects.create(**kept)

    monkeypatch.setattr("sys.stdin", StringIO(printed.getvalue()))
    call_command("erase", "--replay", "-", stdout=StringIO())

    assert not Trajectory.objects.exists()
