"""The role of requests sees and writes rows of one project alone, whatever a query forgets (reliability D12)."""

import json
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.db import Error, connection, models, transaction
from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIClient

from erl_site import urls as site
from memory.api.base import ApiView
from memory.projects.models import ApiKey, Project
from memory.projects.tenancy import confined, is_held
from memory.runs.models import Trajectory
from tests.factories import bearer, make_api_key, make_heuristic, make_project, make_trajectory
from tests.security.any_rows import SHARED, all_models, fill, project_tables

pytestmark = pytest.mark.django_db


class Forgetful(ApiView):
    """Forgets whose runs it may show."""

    required_scopes = {"GET": ApiKey.Scope.TRAJECTORIES_READ}

    def get(self, request: Request) -> Response:
        return Response({"tasks": sorted(Trajectory.objects.values_list("task", flat=True))})


urlpatterns = [path("forgetful", Forgetful.as_view()), path("", include(site))]
handler400, handler403, handler404, handler500 = site.handler400, site.handler403, site.handler404, site.handler500


@pytest.fixture
def projects() -> tuple[Project, Project]:
    """Ours and theirs, with a row in every table each."""
    user = get_user_model().objects.create_user("somebody")
    made = make_project(), make_project()
    for project in made:
        fill(project, user_id=user.pk)
    return made


def ask(statement: str, *parameters: Any, role: str = "erl_tenant", project: UUID | None = None) -> Any:
    """Run one statement as the role with a project set, take it back, and return its rows or the number it changed."""
    with transaction.atomic(), connection.cursor() as cursor:
        try:
            cursor.execute("SELECT set_config('erl.project_id', %s, true)", [str(project or "")])
            cursor.execute(f"SET LOCAL ROLE {role}")
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else cursor.rowcount
        finally:
            transaction.set_rollback(True)


def count(model: type[models.Model], project: Project | None, *, role: str = "erl_tenant") -> int:
    ((rows,),) = ask(f"SELECT count(*) FROM {model._meta.db_table}", role=role, project=project.pk if project else None)  # noqa: S608
    return int(rows)


def count_all(project: Project | None, *, role: str = "erl_tenant") -> dict[str, int]:
    """Return how many rows of each table the role sees with a project set."""
    return {model._meta.db_table: count(model, project, role=role) for model in project_tables()}


def test_every_table_has_the_policy_or_belongs_to_no_project() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, relrowsecurity AND EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid AND polname = "
            "'erl_project') FROM pg_class c WHERE relname = ANY(%s)",
            [[model._meta.db_table for model in all_models()]],
        )
        assert dict(cursor.fetchall()) == {
            model._meta.db_table: model._meta.db_table not in SHARED for model in all_models()
        }


def test_every_reference_stays_within_its_project() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.conrelid::regclass::text, a.attname FROM pg_constraint c"
            " JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]"
            " JOIN pg_attribute own ON own.attrelid = c.conrelid AND own.attname = 'project_id'"
            " JOIN pg_attribute theirs ON theirs.attrelid = c.confrelid AND theirs.attname = 'project_id'"
            " WHERE c.contype = 'f' GROUP BY 1, 2 HAVING max(cardinality(c.conkey)) = 1"
        )
        assert cursor.fetchall() == []


def test_role_sees_the_rows_of_its_project_alone(projects: Any) -> None:
    one_each = dict.fromkeys((model._meta.db_table for model in project_tables()), 1)

    assert min(count_all(None, role="none").values()) >= 2, "there are rows of both"
    assert [count_all(project) for project in projects] == [one_each, one_each]


def test_role_sees_nothing_where_no_project_is_set(projects: Any) -> None:
    assert set(count_all(None).values()) == {0}


@pytest.mark.parametrize(
    "write", ["UPDATE {table} SET {key} = {key} WHERE {key} = %s", "DELETE FROM {table} WHERE {key} = %s"]
)
def test_role_changes_and_deletes_nothing_of_others(projects: Any, write: str) -> None:
    ours, theirs = projects

    outcomes = {
        model._meta.db_table: write_to_theirs(model, write, ours=ours, theirs=theirs) for model in project_tables()
    }

    assert {table: said for table, said in outcomes.items() if said not in (0, "permission denied")} == {}


def write_to_theirs(model: type[models.Model], write: str, *, ours: Project, theirs: Project) -> Any:
    table, key = model._meta.db_table, "project_id"
    columns = [field.column for field in model._meta.local_concrete_fields]
    if key not in columns:
        key = next(name for name in ("heuristic_id", "id") if name in columns)
    ((their_key,),) = ask(f"SELECT {key} FROM {table}", project=theirs.pk)  # noqa: S608 - our own names
    return try_to(write.format(table=table, key=key), their_key, project=ours.pk)


def test_role_adds_nothing_to_others(projects: Any) -> None:
    ours, theirs = projects

    outcomes = {model._meta.db_table: copy_theirs(model, ours=ours, theirs=theirs) for model in project_tables()}

    refused = ("permission denied", "row-level security", "the hash of its revision", "the hash of a revision")
    assert {table: said for table, said in outcomes.items() if said not in refused} == {}


def copy_theirs(model: type[models.Model], *, ours: Project, theirs: Project) -> Any:
    table = model._meta.db_table
    row = ask(f"SELECT to_jsonb(t) FROM {table} t", project=theirs.pk)[0][0]  # noqa: S608
    return try_to(
        f"INSERT INTO {table} SELECT (jsonb_populate_record(NULL::{table}, %s::jsonb)).*",
        row if isinstance(row, str) else json.dumps(row),
        project=ours.pk,
    )


def try_to(statement: str, *parameters: Any, project: UUID) -> Any:
    """Return the number of rows that a statement changed, or why it was refused."""
    try:
        return ask(statement, *parameters, project=project)
    except Error as error:
        reasons = ("row-level security", "permission denied", "the hash of its revision", "the hash of a revision")
        return next((reason for reason in reasons if reason in str(error)), str(error))


def test_without_the_policies_the_check_finds_leaks(projects: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a table with checks that wait cannot be altered
        for model in project_tables():
            cursor.execute(f"ALTER TABLE {model._meta.db_table} DISABLE ROW LEVEL SECURITY")

    assert set(count_all(projects[0]).values()) == {2}


@pytest.mark.parametrize("view", ["heuristic", "text", "source", "evidence", "mistake_card", "outcome"])
def test_views_of_the_search_have_a_twin_of_one_project(view: str) -> None:
    with connection.cursor() as cursor:
        columns = []
        for schema in ("public", "erl_tenant"):
            cursor.execute(
                "SELECT column_name, data_type FROM information_schema.columns "
                "WHERE table_name = %s AND table_schema = %s ORDER BY 1",
                [f"servable_{view}", schema],
            )
            columns.append(cursor.fetchall())

    assert columns[0] == columns[1]


def test_role_reads_no_view_of_all_projects() -> None:
    with pytest.raises(Error, match="permission denied"):
        ask("SELECT * FROM public.servable_heuristic", project=make_project().pk)


def test_views_show_one_project(projects: Any) -> None:
    ours, theirs = (make_heuristic(status="approved", project=project) for project in projects)

    found = ask("SELECT heuristic_id FROM erl_tenant.servable_heuristic", project=ours.project_id)

    assert (ours.pk,) in found
    assert (theirs.pk,) not in found


@pytest.mark.urls(__name__)
@pytest.mark.parametrize(("role", "tasks"), [("", ["Ours", "Theirs"]), ("erl_tenant", ["Ours"])])
def test_query_that_forgets_its_filter_shows_nothing_of_others(settings: Any, role: str, tasks: list[str]) -> None:
    settings.ERL_TENANT_ROLE = role
    ours = make_project()
    make_trajectory(project=ours, task="Ours")
    make_trajectory(task="Theirs")

    answer = APIClient(headers=bearer(make_api_key(project=ours).token)).get("/forgetful")

    assert answer.json() == {"tasks": tasks}
    assert Trajectory.objects.count() == 2, "the rights of the role outlived the request"


def test_role_reads_of_the_person_behind_a_key_what_it_may(settings: Any) -> None:
    settings.ERL_TENANT_ROLE = "erl_tenant"
    key = make_api_key()
    key.api_key.created_by = get_user_model().objects.create_user("ana")
    key.api_key.save()
    lesson = make_heuristic(project=key.api_key.project, status="proposed")
    client = APIClient(headers=bearer(key.token))
    read = {"content_sha256": client.get(f"/api/v1/heuristics/{lesson.pk}").json()["content_sha256"], "reason": "True."}

    answer = client.post(f"/api/v1/heuristics/{lesson.pk}/approve", read, format="json")

    assert (answer.status_code, "acts for ana" in answer.json()["error"]["message"]) == (403, True)


def test_what_a_savepoint_was_told_is_told_again(settings: Any) -> None:
    settings.ERL_TENANT_ROLE = "erl_tenant"
    ours = make_project()
    make_trajectory()

    with confined(ours.pk):
        with transaction.atomic():
            inner = Trajectory.objects.count()
            transaction.set_rollback(True)
        after = Trajectory.objects.count()

    assert (inner, after, Trajectory.objects.count()) == (0, 0, 1)
    assert not is_held()


@pytest.mark.django_db(transaction=True)
def test_statement_without_a_transaction_runs_as_the_role_and_leaves_nothing(settings: Any) -> None:
    settings.ERL_TENANT_ROLE = "erl_tenant"
    ours = make_project()
    make_trajectory()

    with confined(ours.pk):
        seen = Trajectory.objects.count()
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user = session_user, current_setting('erl.project_id', true)")
        left = cursor.fetchone()

    assert (seen, left) == (0, (True, ""))
