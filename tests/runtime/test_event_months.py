"""Events lie in a partition for each month, which is made ahead and dropped as a whole."""

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from erl_site.tasks import EVERY_HOUR
from runtime.models.agents import Agent, AgentRevision
from runtime.models.conversations import Conversation
from runtime.models.runs import Event, Run
from runtime.streaming.events import append_event, prune_parts
from runtime.streaming.feed import read_events
from runtime.streaming.months import keep_event_months
from tests.runtime.running import make_agent

pytestmark = pytest.mark.django_db
PAST = ("2020_01", "2020_02")


def ask(statement: str, *parameters: Any) -> list[Any]:
    """Run a statement and return the first column of its rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [first for first, *_ in cursor.fetchall()] if cursor.description else []


def partitions() -> list[str]:
    return ask("SELECT part::text FROM memory_months('agents_event') ORDER BY 1")


def make_partition(month: str) -> None:
    bounds = "(memory_first_id(m)::text, memory_first_id((m + interval '1 month')::date)::text)"
    ((first, after),) = ask(f"SELECT {bounds} FROM to_date(%s, 'YYYY_MM') m", month)  # noqa: S608 - our own
    ask(f"CREATE TABLE agents_event_{month} PARTITION OF agents_event FOR VALUES FROM ('{first}') TO ('{after}')")


@pytest.fixture
def agent() -> Agent:
    """An agent; two months of the past have partitions, and those between them and now have none."""
    for name in partitions():
        ask(f"DROP TABLE {name}")
    for month in PAST:
        make_partition(month)
    return make_agent()


def make_run_of(agent: Agent, month: str, *, ends: bool = True, hours_ago: int = 0) -> Run:
    """Make a run of the middle of a month, with two events."""
    ((first,),) = [ask("SELECT memory_first_id(to_date(%s, 'YYYY_MM') + 14)", month)]
    ended = {
        "status": "succeeded",
        "stop_reason": "end_turn",
        "finished_at": timezone.now() - timedelta(hours=hours_ago),
    }
    run = Run.objects.create(
        id=UUID(int=first.int + Run.objects.count()), project=agent.project, agent=agent, task="t",
        revision=AgentRevision.objects.get(agent=agent), max_steps=5, approval_seconds=5, created_by="user:ana",
        conversation=Conversation.objects.create(project=agent.project, agent=agent, created_by="user:ana"),
        **(ended if ends else {}),
    )  # fmt: skip
    append_event(run.pk, "text", text="On its")
    append_event(run.pk, "message", text="On its way.")
    ask("SET CONSTRAINTS ALL IMMEDIATE")
    ask("SET CONSTRAINTS ALL DEFERRED")
    return run


def places() -> dict[UUID, str]:
    """Return the partition of each run's events."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT run_id, tableoid::regclass::text FROM agents_event")
        return dict(cursor.fetchall())


def test_events_lie_in_the_month_of_their_run(agent: Agent) -> None:
    runs = [make_run_of(agent, month) for month in (*PAST, "2020_03")]

    expected = ["agents_event_2020_01", "agents_event_2020_02", "agents_event_default"]
    assert places() == dict(zip([run.pk for run in runs], expected, strict=True))


def test_events_of_a_run_are_read_from_one_partition(agent: Agent) -> None:
    run = make_run_of(agent, PAST[0])
    with CaptureQueriesContext(connection) as captured:
        assert [event.seq for event in read_events(run.pk, after=1)] == [2]

    plan = "\n".join(ask(f"EXPLAIN {captured.captured_queries[0]['sql']}"))

    assert set(re.findall(r" on (\w+)", plan)) == {"agents_event_2020_01"}


@pytest.mark.parametrize("table", ["agents_event", "agents_event_2020_01", "agents_event_default"])
def test_event_of_another_projects_run_is_refused_by_every_table(agent: Agent, table: str) -> None:
    month = "2020_03" if table.endswith("default") else "2020_01"
    run = make_run_of(agent, month)

    ask(
        f"INSERT INTO {table} (project_id, run_id, seq, kind, payload) VALUES (%s, %s, 9, 'x', '{{}}')",  # noqa: S608
        make_agent(name="theirs").project_id,
        run.pk,
    )
    with pytest.raises(DatabaseError, match="agents_event_run_id_within"):
        connection.check_constraints()


def test_event_of_a_partition_does_not_move_to_another_project(agent: Agent) -> None:
    make_run_of(agent, PAST[0])

    ask("UPDATE agents_event_2020_01 SET project_id = %s", make_agent(name="theirs").project_id)
    with pytest.raises(DatabaseError, match="agents_event_run_id_within"):
        connection.check_constraints()


def test_this_month_and_the_next_two_are_made_ahead(agent: Agent) -> None:
    keep_event_months()

    ahead = ask(
        "SELECT 'agents_event_' || to_char(m, 'YYYY_MM') FROM generate_series(date_trunc('month', now(), 'UTC'),"
        " date_trunc('month', now(), 'UTC') + interval '2 months', interval '1 month', 'UTC') m"
    )
    assert partitions()[-3:] == ahead


def test_month_that_began_in_the_default_partition_stays_there(agent: Agent, settings: Any) -> None:
    settings.ERL_RETENTION_DAYS = 0
    run = make_run_of(agent, timezone.now().strftime("%Y_%m"))

    keep_event_months()

    assert places() == {run.pk: "agents_event_default"}
    assert len(partitions()) == len(PAST) + 2


def test_month_past_its_time_is_dropped_and_its_runs_stay(agent: Agent) -> None:
    run, new = make_run_of(agent, PAST[0]), make_run_of(agent, timezone.now().strftime("%Y_%m"))

    keep_event_months()

    assert [*places()] == [new.pk]
    assert not {f"agents_event_{month}" for month in PAST}.intersection(partitions())
    assert Run.objects.get(pk=run.pk).events_written == 2


@pytest.mark.parametrize("month", [PAST[0], "2020_03"])
def test_events_of_a_run_that_goes_on_are_kept(agent: Agent, month: str) -> None:
    run = make_run_of(agent, month, ends=False)
    make_run_of(agent, PAST[1])

    keep_event_months()

    assert [*places()] == [run.pk]


def test_old_events_in_the_default_partition_are_deleted(agent: Agent) -> None:
    make_run_of(agent, "2020_03")

    keep_event_months()

    assert places() == {}


def test_without_a_time_all_months_are_kept(agent: Agent, settings: Any) -> None:
    settings.ERL_RETENTION_DAYS = 0
    run = make_run_of(agent, PAST[0])

    keep_event_months()

    assert [*places()] == [run.pk]


def test_month_that_is_in_use_is_left_to_the_next_call(settings: Any) -> None:
    settings.ERL_RETENTION_DAYS = -100  # the next months, which have no events
    before = ask("SELECT part::oid FROM memory_months('agents_event')")

    with psycopg.connect(**connection.get_connection_params()) as reader:
        reader.execute("SELECT FROM agents_event")
        keep_event_months()

    assert ask("SELECT part::oid FROM memory_months('agents_event')") == before
    keep_event_months()
    assert not {*before}.intersection(ask("SELECT part::oid FROM memory_months('agents_event')"))


def test_parts_are_pruned_an_hour_after_the_end_of_their_run(agent: Agent) -> None:
    old, new = make_run_of(agent, PAST[0], hours_ago=2), make_run_of(agent, PAST[1])

    assert prune_parts() == 1
    assert [[event.kind for event in read_events(run.pk, after=0)] for run in (old, new)] == [
        ["message"],
        ["text", "message"],
    ]


def test_events_go_with_their_run(agent: Agent) -> None:
    make_run_of(agent, PAST[0]).delete()

    assert not Event.objects.exists()


def test_it_is_part_of_the_periodic_work() -> None:
    assert keep_event_months in EVERY_HOUR
