"""Every invariant finds a row that violates it (reliability B14, F25)."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from memory.blocks.edits import NewBlock, create_block
from memory.intake.recording import record_trajectory
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.trust.invariants import all_invariants, find_violations
from reflection.reflectors.models import Proposal
from tests.factories import (
    approve_as_read,
    approve_card_as_read,
    make_heuristic,
    make_idempotency_record,
    make_project,
    make_reflection,
    make_trajectory,
)

pytestmark = pytest.mark.django_db

BY = Actor(label="user:ana")
CARD = {
    "mistake_type": "wrong_fare",
    "bad_decision": "Cancelled without looking.",
    "correct_decision": "Look first.",
    "evidence": "Step 1.",
    "lesson": "Look at the fare first.",
}

# What each rule is broken by.
BREAKS: dict[str, str] = {
    "served_is_approved": "UPDATE memory_heuristicrevision SET approved_by = '' WHERE served",
    "served_has_a_review": "DELETE FROM memory_review",
    "review_is_of_a_revision": "UPDATE memory_review SET revision_id = gen_random_uuid()",
    "nothing_covered_is_served": (
        "INSERT INTO memory_quarantineorder (id, project_id, source, client, since, reason, heuristic_ids, "
        "wording_ids, retrieval_count, ordered_by, ordered_at) SELECT gen_random_uuid(), project_id, 'client:x', 'x', "
        "now(), '', '{}', ARRAY[id], 0, 'x', now() FROM memory_heuristicrevision"
    ),
    "content_is_what_was_hashed": "UPDATE memory_heuristicrevision SET guideline = 'Do as I say.'",
    "vectors_follow_service": "UPDATE memory_heuristicembedding SET served = NOT served",
    "status_agrees_with_service": "UPDATE memory_heuristic SET status = 'quarantined'",
    "heuristic_has_its_revision": "UPDATE memory_heuristic SET current_revision_id = NULL",
    "support_is_counted": "UPDATE memory_heuristic SET support = support + 7",
    "acknowledged_run_exists": "UPDATE memory_idempotencyrecord SET resource_id = gen_random_uuid()",
    "review_is_in_the_audit": "DELETE FROM memory_auditentry",
    "block_in_effect_is_allowed": "UPDATE memory_block SET char_limit = 1",
    "erased_run_is_gone": (
        "INSERT INTO memory_erasure (id, project_id, trajectory_id, heuristic_ids, erased_by, erased_at) "
        "SELECT gen_random_uuid(), project_id, id, '{}', 'x', now() FROM memory_trajectory"
    ),
    "indexes_are_valid": "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'memory_trajectory_tags'::regclass",
    "effect_and_end_are_one": "UPDATE reflection_job SET status = 'retry', finished_at = NULL",
    "running_has_a_lease": "UPDATE reflection_job SET lease_until = now()",
    "finished_has_an_end": "UPDATE reflection_job SET finished_at = NULL",
    "job_costs_what_its_calls_cost": "UPDATE reflection_job SET input_tokens = 1",
    "machine_lesson_has_evidence": "DELETE FROM memory_evidence",
}


@pytest.fixture
def whole(settings: Any) -> Any:
    """One valid row of everything."""
    settings.ERL_EMBEDDER = "none"
    run = make_trajectory()
    heuristic = approve_as_read(make_heuristic(trajectory=run), by=BY)
    create_block(run.project, NewBlock(label="human", value="Name: Ana"), by=BY)
    reflection = make_reflection(trajectory=run, status="done", finished_at=run.created_at, heuristics_proposed=1)
    Proposal.objects.create(
        project=run.project, reflection=reflection, ordinal=1, heuristic=heuristic, effect=Proposal.Effect.NEW
    )
    make_idempotency_record(project=run.project, resource_id=run.pk)
    record_trajectory(run.project, data={"task": "t", "mistake_cards": [CARD]}, by=BY, reflect=False)
    approve_card_as_read(MistakeCard.objects.get(), by=BY)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        cursor.execute(
            "INSERT INTO memory_embeddingmodel (id, dimensions, active, created_at) VALUES ('m', 3, false, now())"
        )
        cursor.execute(
            "INSERT INTO memory_heuristicembedding (project_id, heuristic_id, revision_id, embedding_model_id, kind, "
            "text_sha256, served) SELECT project_id, heuristic_id, id, 'm', 'lesson', 'x', served "
            "FROM memory_heuristicrevision"
        )
    return run


def broken() -> set[str]:
    return {violation.invariant.name for violation in find_violations()}


def test_nothing_is_broken_in_a_sound_database(whole: Any) -> None:
    assert broken() == set()


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_invariant_finds_its_violation(whole: Any, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # the database itself would refuse most of it
        for flag in ("served", "live"):
            rule = f"memory_revision_{flag}_is_approved"
            cursor.execute(f"ALTER TABLE memory_heuristicrevision DROP CONSTRAINT {rule}")
        for rule in ("lease_while_running", "end_is_known"):
            cursor.execute(f"ALTER TABLE reflection_job DROP CONSTRAINT reflection_job_{rule}")
        cursor.execute(BREAKS[name])
        cursor.execute("SET LOCAL session_replication_role = origin")

    assert name in broken()


def test_row_of_another_project_is_found_by_every_rule_about_it(whole: Any) -> None:
    other = make_project()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        for table in ("memory_evidence", "memory_review", "reflection_job"):
            cursor.execute(f"UPDATE {table} SET project_id = %s", [other.pk])  # noqa: S608 - our own names
        cursor.execute("SET LOCAL session_replication_role = origin")

    assert {
        "memory_evidence.heuristic_id_same_project",
        "memory_evidence.trajectory_id_same_project",
        "review_is_of_a_revision",
        "reflection_job.trajectory_id_same_project",
        "reflection_proposal.reflection_id_same_project",
    } <= broken()


def test_every_invariant_has_a_violation() -> None:
    assert {rule.name for rule in all_invariants() if "same_project" not in rule.name} == set(BREAKS)


def test_command_exits_1_and_names_the_rows(whole: Any) -> None:
    output = StringIO()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE memory_heuristic SET support = 7")

    with pytest.raises(CommandError) as raised:
        call_command("verify_audit", stdout=output)

    assert raised.value.returncode == 1
    assert "support_is_counted" in output.getvalue()
