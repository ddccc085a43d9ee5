"""Client, worker, sweeper, reviewer, operator and eraser in any order: no rule about the rows ever breaks (F23)."""

from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, seed
from hypothesis import settings as Budget
from hypothesis.stateful import run_state_machine_as_test

from memory.heuristics.models import Heuristic
from memory.runs.models import Trajectory
from tests.chaos.profile import SEED, pick, report
from tests.security.watched import effective, made, plan_look
from tests.security.world import World

pytestmark = pytest.mark.django_db

RUNS, STEPS = pick(4, 2_000, full=240), 50


@pytest.fixture(autouse=True)
def _planned(settings: Any) -> None:
    settings.ERL_REFLECTOR, settings.ERL_LLM_PROVIDER, settings.ERL_LLM_MODEL = "llm", "openai", "m"
    settings.ERL_EMBEDDER, settings.ERL_PENDING_PROPOSALS_PER_CLIENT = "none", 0
    made.clear()
    effective.clear()
    plan_look()


def budget(*, runs: int) -> Budget:
    return Budget(
        max_examples=runs,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        print_blob=True,
        database=None,
    )


def run_worlds(seed_of_half: int) -> None:
    run_state_machine_as_test(seed(seed_of_half)(World), settings=budget(runs=RUNS // 2))

    runs, checks = made.pop("runs"), made.pop("checks")
    report("F23", runs=runs, steps_each=STEPS, steps=checks - runs, violations=0, turns=made.total(), **effective)
    assert effective.total() > pick(0, made.total() // 2), "most turns had nothing to do"


def test_no_order_of_steps_breaks_a_rule() -> None:
    run_worlds(SEED)


def test_no_other_order_of_steps_breaks_a_rule() -> None:
    """The other half, which the fault runner lets another process do."""
    run_worlds(SEED + 1)


class ApprovesWithoutTheHash(World):
    """Serves what is newest, and says nowhere which words were approved."""

    def approve(self, heuristic: Heuristic) -> Heuristic:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("ALTER TABLE memory_heuristicrevision DROP CONSTRAINT memory_revision_served_is_approved")
            cursor.execute(
                "UPDATE memory_heuristicrevision SET served = true WHERE id = %s", [heuristic.current_revision_id]
            )
            cursor.execute("UPDATE memory_heuristic SET status = 'approved' WHERE id = %s", [heuristic.pk])
            cursor.execute("SET LOCAL session_replication_role = origin")
        return heuristic


class ApprovesWithoutAReview(World):
    """Serves what is newest with its hash, and nobody can tell afterwards who read it."""

    def approve(self, heuristic: Heuristic) -> Heuristic:
        approved = super().approve(heuristic)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("DELETE FROM memory_review WHERE subject_id = %s", [heuristic.pk])
            cursor.execute("SET LOCAL session_replication_role = origin")
        return approved


class SweepsAwayARun(World):
    """Tidies up what it should keep."""

    def keep_house(self) -> None:
        for run in Trajectory.objects.order_by("pk")[:1]:
            super().erase_run(run)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (ApprovesWithoutTheHash, "served_is_approved"),
        (ApprovesWithoutAReview, "served_has_a_review"),
        (SweepsAwayARun, "what was acknowledged is there"),
    ],
)
def test_broken_world_is_noticed(broken: type[World], says: str) -> None:
    at_once = Budget(budget(runs=100), phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)

    with pytest.raises(AssertionError, match=says):
        run_state_machine_as_test(seed(7)(broken), settings=at_once)
