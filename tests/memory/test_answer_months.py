"""Answers lie in a partition for each month, which is dropped as a whole, but for those that are evidence."""

from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, connection
from django.utils import timezone

from erl_site.tasks import EVERY_HOUR
from evaluation.models import ShadowAnswer
from memory.effects.models import HeuristicFeedback, UsageVerdict
from memory.months import change_partitions
from memory.projects.models import Project
from memory.releases.deployments import cut_release
from memory.releases.models import Release
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from memory.trust import retention
from memory.trust.invariants import find_violations
from memory.trust.retention import delete_old_answers, keep_answer_months
from runtime.models.runs import Run
from tests.factories import make_heuristic, make_project, make_trajectory
from tests.runtime.running import BY, make_agent, make_run

pytestmark = pytest.mark.django_db
PAST = ("2020_01", "2020_02")
OUTSIDE = "2020_03"  # a month without a partition
KEPT = "memory_retrieval_kept"


def ask(statement: str, *parameters: Any) -> list[Any]:
    """Run a statement and return the first column of its rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return [first for first, *_ in cursor.fetchall()] if cursor.description else []


def months() -> list[str]:
    return ask("SELECT part::text FROM memory_months('memory_retrieval_months') ORDER BY 1")


def settle() -> None:
    """Check what waits for the end of the transaction, as each of the product's does."""
    ask("SET CONSTRAINTS ALL IMMEDIATE")
    ask("SET CONSTRAINTS ALL DEFERRED")


def change_settled(statement: str) -> list[str] | None:
    settle()  # here all is one transaction
    return change_partitions(statement)


@pytest.fixture
def project() -> Project:
    """A project; two months of the past have partitions, and those between them and now have none."""
    for name in months():
        ask(f"DROP TABLE {name}")
    for month in PAST:
        first, after = [
            ask(f"SELECT memory_first_id((to_date('{month}', 'YYYY_MM') + interval '{n} months')::date)")[0]
            for n in (0, 1)
        ]
        ask(
            f"CREATE TABLE memory_retrieval_{month} PARTITION OF memory_retrieval_months"
            f" FOR VALUES FROM ('{first}') TO ('{after}')"
        )
    return make_project()


def make_answer(project: Project, month: str = PAST[0]) -> Retrieval:
    """Make an answer of the middle of a month."""
    first, made = ask("SELECT memory_first_id(to_date(%s, 'YYYY_MM') + 14)", month)[0], f"{month.replace('_', '-')}-15"
    answer = Retrieval.objects.create(
        id=UUID(int=first.int + Retrieval.objects.count()),
        project=project,
        task=f"Task of {month}",
        mode="hybrid",
        top_k=1,
        budget_tokens=1,
        created_at=datetime.fromisoformat(f"{made}T12:00:00+00:00"),
    )
    settle()
    return answer


def refer(answer: Retrieval, what: type[Any]) -> Any:
    """Make a row that refers to an answer and makes it evidence."""
    lesson = make_heuristic(project=answer.project)
    made: Any
    if what is Run:
        made = make_run(make_agent(project=answer.project))
        Run.objects.filter(pk=made.pk).update(retrieval=answer)
    elif what is Trajectory:
        made = make_trajectory(project=answer.project, retrieval=answer)
    elif what is HeuristicFeedback:
        made = HeuristicFeedback.objects.create(
            project=answer.project, heuristic=lesson, retrieval=answer, verdict="followed", client="agent"
        )
    else:
        made = UsageVerdict.objects.create(
            project=answer.project, heuristic=lesson, trajectory=make_trajectory(project=answer.project),
            retrieval=answer, content_sha256="0" * 64, verdict="followed", judge="rules",
        )  # fmt: skip
    settle()
    return made


def places() -> dict[UUID, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, tableoid::regclass::text FROM memory_retrieval")
        return dict(cursor.fetchall())


def shadow(answer: Retrieval) -> ShadowAnswer:
    release = Release.objects.filter(project=answer.project).first() or cut_release(answer.project, by=BY)
    row: ShadowAnswer = ShadowAnswer.objects.create(
        project=answer.project, kind="answer", retrieval=answer, stable=release, candidate=release, verdict="same",
        at=answer.created_at, made_by=BY.label,
    )  # fmt: skip
    return row


def test_answer_is_in_the_partition_of_its_month(project: Project) -> None:
    first, second, other = (make_answer(project, month) for month in (*PAST, OUTSIDE))

    assert places() == {
        first.pk: "memory_retrieval_2020_01",
        second.pk: "memory_retrieval_2020_02",
        other.pk: "memory_retrieval_default",
    }


def test_answer_is_looked_up_in_its_month_and_among_the_kept(project: Project) -> None:
    answer = make_answer(project)

    plan = "\n".join(ask("EXPLAIN SELECT * FROM memory_retrieval WHERE id = %s", answer.pk))

    assert "memory_retrieval_2020_01" in plan
    assert KEPT in plan
    assert "memory_retrieval_2020_02" not in plan
    assert "memory_retrieval_default" not in plan


def test_this_month_and_the_next_two_are_made_ahead(project: Project) -> None:
    keep_answer_months()

    ahead = ask(
        "SELECT 'memory_retrieval_' || to_char(m, 'YYYY_MM') FROM generate_series(date_trunc('month', now(), 'UTC'),"
        " date_trunc('month', now(), 'UTC') + interval '2 months', interval '1 month', 'UTC') m"
    )
    assert months()[-3:] == ahead


def test_month_past_its_time_is_dropped_and_what_only_went_with_it(project: Project) -> None:
    old, new = make_answer(project), make_answer(project, timezone.now().strftime("%Y_%m"))
    shadow(old)
    theirs = shadow(new)
    settle()

    assert delete_old_answers() == 0
    assert [*places()] == [new.pk]
    assert not {f"memory_retrieval_{month}" for month in PAST}.intersection(months())
    assert ShadowAnswer.objects.get() == theirs


@pytest.mark.parametrize("what", [Trajectory, HeuristicFeedback, UsageVerdict, Run])
@pytest.mark.parametrize("month", [PAST[0], OUTSIDE])
def test_answer_that_is_evidence_is_kept(project: Project, what: type[Any], month: str) -> None:
    answer = make_answer(project, month)
    make_answer(project, month)
    evidence = refer(answer, what)
    shadowed = shadow(answer)
    settle()

    delete_old_answers()

    assert places() == {answer.pk: KEPT if month in PAST else "memory_retrieval_default"}
    evidence.refresh_from_db()
    assert evidence.retrieval == answer
    assert ShadowAnswer.objects.get() == shadowed
    assert not [*find_violations()]


def test_many_are_kept_in_batches(project: Project) -> None:
    answers = [make_answer(project) for _ in range(5)]
    for answer in answers[1:]:
        refer(answer, Trajectory)

    delete_old_answers(batch_size=2)

    assert places() == dict.fromkeys([answer.pk for answer in answers[1:]], KEPT)


def test_kept_answer_goes_after_its_run(project: Project) -> None:
    run = refer(make_answer(project), Trajectory)
    delete_old_answers()
    run.delete()
    settle()

    assert delete_old_answers() == 1
    assert not places()


def test_kept_answer_is_still_read_and_forgotten(project: Project) -> None:
    answer = make_answer(project)
    refer(answer, Trajectory)
    delete_old_answers()

    Retrieval.objects.filter(pk=answer.pk).update(task="")

    assert Retrieval.objects.get(pk=answer.pk).task == ""


def test_answer_that_became_evidence_while_its_month_left_is_put_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = make_answer(project)

    def change_late(statement: str) -> list[str] | None:
        if "DETACH PARTITION memory_retrieval_2020_01" in statement:
            refer(answer, Trajectory)
        return change_settled(statement)

    monkeypatch.setattr(retention, "change_partitions", change_late)
    delete_old_answers()

    assert places() == {answer.pk: KEPT}


def test_month_that_was_detached_before_a_stop_is_finished(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = make_answer(project)
    refer(answer, Trajectory)
    ask("ALTER TABLE memory_retrieval_months DETACH PARTITION memory_retrieval_2020_01")
    assert not places()

    monkeypatch.setattr(retention, "change_partitions", change_settled)
    delete_old_answers()

    assert places() == {answer.pk: KEPT}
    assert ask("SELECT to_regclass('memory_retrieval_2020_01')") == [None]


def test_month_in_use_is_left_to_the_next_call(settings: Any) -> None:
    settings.ERL_RETENTION_DAYS = -100  # the next months, which have no answers
    before = months()

    with psycopg.connect(**connection.get_connection_params()) as reader:
        reader.execute("SELECT FROM memory_retrieval")
        delete_old_answers()
        assert months() == before

    delete_old_answers()
    assert not {*before}.intersection(months())


def test_reference_to_an_answer_that_does_not_exist_is_refused(project: Project) -> None:
    with pytest.raises(IntegrityError, match="refers to an answer that does not exist"):
        make_trajectory(project=project, retrieval_id=UUID(int=1))


def test_reference_to_an_answer_of_another_project_is_refused(project: Project) -> None:
    answer = make_answer(project)

    with pytest.raises(DatabaseError, match="refers to an answer that belongs elsewhere"):
        make_trajectory(project=make_project(), retrieval_id=answer.pk)


@pytest.mark.parametrize("month", [PAST[0], OUTSIDE])
def test_answer_that_is_evidence_cannot_be_deleted(project: Project, month: str) -> None:
    answer = make_answer(project, month)
    refer(answer, Trajectory)
    ask("DELETE FROM memory_retrieval WHERE id = %s", answer.pk)

    with pytest.raises(IntegrityError, match="an answer that memory_trajectory refers to cannot be deleted"):
        settle()


def test_it_is_part_of_the_periodic_work() -> None:
    assert keep_answer_months in EVERY_HOUR
