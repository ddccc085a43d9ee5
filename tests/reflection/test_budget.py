"""Budgets: reserved before a call, settled after it, and never passed."""

import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from memory.database_clock import database_today
from memory.projects.models import Project
from reflection.errors import BudgetExhausted
from reflection.jobs.execution import Outcome
from reflection.llm.base import ProviderError
from reflection.llm.budget import reserve, resume_projects, settle
from reflection.llm.models import DailySpend
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import run_reflection
from tests.factories import make_project, make_reflection, make_trajectory
from tests.reflection.running import make_due, run
from tests.reflection.scripted import (
    ScriptedModel,
    ScriptedReflector,
    ask_then,
    make_completion,
    make_lesson,
    make_request,
    propose,
)
from tests.stack import database_url

pytestmark = pytest.mark.django_db

Status = Reflection.Status


def reflect(project: Project, model: ScriptedModel | None = None) -> Reflection:
    reflection = make_reflection(trajectory=make_trajectory(project=project))
    reflector = ScriptedReflector(plan=ask_then(propose()))
    run_reflection(reflection.pk, owner="test", make_reflector=reflector, ask_model=model or ScriptedModel())
    return Reflection.objects.get(pk=reflection.pk)


def next_utc_midnight() -> datetime:
    return (datetime.now(UTC) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)


def test_call_is_booked_on_the_projects_day(settings: Any) -> None:
    settings.ERL_LLM_INPUT_USD_PER_MTOK, settings.ERL_LLM_OUTPUT_USD_PER_MTOK = 3.0, 15.0
    project = make_project()

    reflect(project, ScriptedModel(input_tokens=1000, output_tokens=200))

    spend = DailySpend.objects.get()
    assert (spend.project, spend.day, spend.calls, spend.tokens) == (project, datetime.now(UTC).date(), 1, 1200)
    assert spend.cost_usd == Decimal("0.006")


def test_stored_answer_is_booked_once() -> None:
    project = make_project()
    reflection = make_reflection(trajectory=make_trajectory(project=project))
    model = ScriptedModel()

    def crash(*args: Any) -> Any:
        raise RuntimeError("killed")

    for plan in (crash, propose()):
        Reflection.objects.update(available_at=timezone.now())
        run_reflection(
            reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=ask_then(plan)), ask_model=model
        )

    assert DailySpend.objects.get().calls == model.calls == 1


@pytest.mark.parametrize(
    "limit",
    [
        {"daily_call_budget": 0},
        {"daily_token_budget": 50},
        {"daily_cost_budget_usd": Decimal("0.0001")},
    ],
    ids=lambda limit: next(iter(limit)),
)
def test_call_over_the_budget_is_put_off_until_tomorrow(limit: dict[str, Any], settings: Any) -> None:
    settings.ERL_LLM_OUTPUT_USD_PER_MTOK = 15.0
    model = ScriptedModel()

    waiting = reflect(make_project(**limit), model)

    assert (waiting.status, waiting.attempts, waiting.last_error_code) == (
        Status.DEFERRED_BUDGET,
        0,
        "budget_exhausted",
    )
    assert waiting.available_at == next_utc_midnight()
    assert model.calls == 0


def test_everything_queued_is_put_off_with_it() -> None:
    project, other = make_project(daily_call_budget=0), make_project()
    queued = make_reflection(trajectory=make_trajectory(project=project))
    others = make_reflection(trajectory=make_trajectory(project=other))

    reflect(project)

    queued.refresh_from_db()
    others.refresh_from_db()
    assert (queued.status, others.status) == (Status.DEFERRED_BUDGET, Status.QUEUED)


def test_reflection_without_a_model_needs_no_budget() -> None:
    project = make_project(daily_call_budget=0)
    reflection = make_reflection(trajectory=make_trajectory(project=project))

    attempt = run_reflection(reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=propose(make_lesson())))

    assert attempt.outcome == Outcome.DONE


def test_budget_of_yesterday_does_not_count() -> None:
    project = make_project(daily_call_budget=1)
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    DailySpend.objects.create(project=project, day=yesterday, calls=1)

    assert reflect(project).status == Status.DONE


def test_reservation_counts_until_it_is_settled() -> None:
    project = make_project(daily_token_budget=200)
    first = reserve(project, make_request("x" * 40, max_output_tokens=100))

    with pytest.raises(BudgetExhausted):
        reserve(project, make_request("x" * 40, max_output_tokens=100))
    settle(first, make_completion(input_tokens=10, output_tokens=5))

    assert reserve(project, make_request("x" * 40, max_output_tokens=100)).tokens > 100


def test_refused_call_gives_back_its_tokens_but_counts_as_a_call() -> None:
    project = make_project()
    refused = ProviderError("Too many.", transient=True, code="rate_limited", status=429)

    reflect(project, ScriptedModel(error=refused))

    spend = DailySpend.objects.get()
    assert (spend.calls, spend.tokens) == (1, 0)


def test_call_without_an_answer_may_have_been_charged_and_stays_booked() -> None:
    project = make_project()
    silent = ProviderError("No answer in time.", transient=True, code="timeout")

    reflect(project, ScriptedModel(error=silent))

    assert DailySpend.objects.get().tokens > 100


@pytest.mark.django_db(transaction=True)
def test_budget_is_not_passed_by_many_at_once() -> None:
    project = make_project(daily_call_budget=10)
    for _ in range(30):
        make_reflection(trajectory=make_trajectory(project=project))
    model = ScriptedModel()

    def work() -> None:
        try:
            reflector = ScriptedReflector(plan=ask_then(propose()))
            while run_reflection(owner="w", make_reflector=reflector, ask_model=model).outcome != Outcome.NOTHING:
                pass
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert model.calls == DailySpend.objects.get().calls == 10
    counts = {status: Reflection.objects.filter(status=status).count() for status in Status.values}
    assert (counts[Status.DONE], counts[Status.DEFERRED_BUDGET]) == (10, 20)


@pytest.mark.django_db(transaction=True)
def test_worker_that_hangs_in_a_transaction_costs_the_jobs_that_wait_for_its_rows_no_attempt() -> None:
    project = make_project()
    with psycopg.connect(database_url(connection.settings_dict)) as hung:
        hung.execute(
            "INSERT INTO reflection_dailyspend (project_id, day, calls, tokens, cost_usd) VALUES (%s, %s, 0, 0, 0)",
            [project.pk, database_today()],
        )
        waiting = reflect(project)
        hung.rollback()
    make_due(waiting)

    assert (waiting.status, waiting.attempts, waiting.last_error_code) == (Status.RETRY, 0, "locked")
    assert run(ask_then(propose()), waiting).status == Status.DONE


def test_raised_budget_makes_what_waits_due() -> None:
    project = make_project(daily_call_budget=0)
    waiting = reflect(project)
    Project.objects.filter(pk=project.pk).update(daily_call_budget=5)

    resumed = resume_projects()

    assert resumed == 1
    assert waiting in Reflection.objects.due()


def test_used_up_budget_leaves_what_waits() -> None:
    waiting = reflect(make_project(daily_token_budget=50))

    assert resume_projects() == 0
    assert waiting not in Reflection.objects.due()
