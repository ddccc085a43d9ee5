"""Names of tools, ids and error codes: what is one, and that lessons are found by them however they are spelled."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings as live_settings
from django.db import connection, transaction
from django.test import override_settings

from memory.embeddings.registry import get_embedder
from memory.embeddings.words import SHARED_WORDS
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.housekeeping import name_lessons
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.candidates import Candidate, find_candidates, find_in_database
from memory.retrieval.database import QueryVector
from memory.retrieval.database_search import Search
from memory.retrieval.models import ServedChange
from memory.retrieval.name_match import MOST_LESSONS, STRESSED, find_named, find_names, is_near, weigh
from memory.retrieval.project_state import read_state
from memory.retrieval.question import Filters, Question
from memory.retrieval.snapshot import snapshots
from tests.factories import make_heuristic, make_project

BY = Actor(label="key:agent")
FAR = "The lesson says nothing that resembles the task in any way"


def keys(text: str) -> set[str]:
    return {name.key for name in find_names(text)}


def names_in_database(texts: list[str]) -> list[set[str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT memory_names(body) FROM unnest(%s::text[]) WITH ORDINALITY AS t (body, n) ORDER BY n", [texts]
        )
        return [set(names.split()) for (names,) in cursor.fetchall()]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("call get_user_details first", {"getuserdetails"}),
        ("ERR_CONN_RESET again", {"errconnreset"}),
        ("code E-4032 or E4032", {"e4032"}),
        (
            "OrderService.cancelOrder is slow",
            {"orderservicecancelorder", "orderservice", "cancelorder"},
        ),
        ("see requirements-dev.txt.", {"requirementsdevtxt"}),
        ("account acct_99182", {"acct99182"}),
        ("an ECONNRESET of the socket", {"econnreset"}),
        ("get-user-details (kebab)", {"getuserdetails"}),
        ("std::vector", {"stdvector"}),
        ("/etc/nginx/nginx.conf", {"etcnginxnginxconf", "nginxconf"}),
        ("flight 2FBBAH", {"2fbbah"}),
    ],
)
def test_names_are_found(text: str, found: set[str]) -> None:
    assert keys(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "Please cancel my flight, and book the same one a day later; it costs $3.50 at 10:30 on 2024-05-15.",
        "A well-known, state-of-the-art 24-hour check-in for a 9-year-old and/or his mother-in-law, e.g. at 5pm.",
        "You MUST NEVER do that. ALWAYS ask FIRST.",
        "PLEASE CANCEL EVERY SINGLE ORDER OF MINE RIGHT THIS MINUTE",
        "Order number 4032, the 2nd of 12.",
    ],
)
def test_plain_english_has_no_names(text: str) -> None:
    assert keys(text) == set()


@pytest.mark.django_db
def test_database_finds_the_same_names() -> None:
    folder = Path(live_settings.BASE_DIR) / "evaluation" / "data"
    lines = [
        json.loads(line)["text"]
        for part in ("tau_banking/corpus", "tau_banking/queries", "metatool/queries", "tau_retail/queries")
        for line in (folder / f"{part}.jsonl").read_text().splitlines()[:250]
    ]
    texts = [*lines, *(word.upper() for word in SHARED_WORDS | STRESSED), "[REDACTED:api_key:12ab34cd] é_x — a__b", ""]

    assert names_in_database(texts) == [keys(text) for text in texts]


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("getuserdetail", "getuserdetails", True),
        ("errconnrset", "errconnreset", True),
        ("errconnreest", "errconnreset", True),
        ("getuserdetails", "getorderdetails", False),
        ("acct99182", "acct99183", False),
        ("setitem", "getitem", False),
        ("e4032", "e4023", False),
    ],
)
def test_slip_is_near_and_another_thing_is_not(one: str, other: str, near: bool) -> None:
    assert is_near(one, other) is near


def serve(project: Project, trigger: str, *, status: str = "approved", **options: Any) -> Heuristic:
    heuristic = make_heuristic(project=project, status=status, trigger=trigger, **options)
    embed_heuristics([heuristic.pk])
    return heuristic


def found_by(project: Project, text: str) -> set[UUID]:
    revisions = HeuristicRevision.objects.filter(pk__in=find_named(project.pk, text))
    return set(revisions.values_list("heuristic_id", flat=True))


@pytest.mark.django_db
@pytest.mark.parametrize(
    "task",
    [
        "get_user_details fails",
        "getUserDetails fails",
        "get-user-details fails",
        "GET_USER_DETAILS fails",
        "get_user_detial fails",
        "tools.get_user_details fails",
    ],
)
def test_lesson_is_found_however_its_name_is_spelled(task: str) -> None:
    project = make_project()
    wanted = serve(project, f"{FAR}, but get_user_details")
    serve(project, f"{FAR}, but get_order_details")

    assert found_by(project, task) == {wanted.pk}


@pytest.mark.django_db
def test_near_name_is_not_looked_for_where_a_lesson_has_the_name() -> None:
    project = make_project()
    exact = serve(project, "get_user_details fails")
    serve(project, "get_user_detail fails")

    assert found_by(project, "get_user_details fails") == {exact.pk}


@pytest.mark.django_db
def test_id_with_another_number_is_another_thing() -> None:
    project = make_project()
    serve(project, "acct_99182 is locked")

    assert found_by(project, "acct_99183 is locked") == set()


@pytest.mark.django_db
def test_slip_beside_the_same_number_is_found() -> None:
    project = make_project()
    wanted = serve(project, "order_line_99182 is locked")
    serve(project, "order_line_99183 is locked")

    assert found_by(project, "order_lnie_99182 is locked") == {wanted.pk}


@pytest.mark.django_db
def test_only_what_the_project_serves_is_found() -> None:
    project = make_project()
    serve(make_project(), "ERR_CONN_RESET of another project")
    serve(project, "ERR_CONN_RESET not approved", status="proposed")
    withdrawn = serve(project, "ERR_CONN_RESET withdrawn")
    HeuristicRevision.objects.filter(heuristic=withdrawn).update(served=False)
    Heuristic.objects.filter(pk=withdrawn.pk).update(status="retired")
    served = serve(project, "ERR_CONN_RESET served")

    assert found_by(project, "ERR_CONN_RESET") == found_by(project, "ERR_CONN_REST") == {served.pk}


@pytest.mark.django_db
def test_role_of_requests_finds_nothing_of_others() -> None:
    project, other = make_project(), make_project()
    serve(project, "ERR_CONN_RESET of ours")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('erl.project_id', %s, true)", [str(other.pk)])
        cursor.execute("SELECT set_config('search_path', 'erl_tenant, public', true)")
        cursor.execute("SET LOCAL ROLE erl_tenant")
        cursor.execute("SELECT count(*) FROM memory_named(%s, '{errconnreset,errconnrest}', 5)", [project.pk])
        rows = cursor.fetchall()
        transaction.set_rollback(True)

    assert rows == [(0,)]


def count_look_ups() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(generic_plans + custom_plans), 0) FROM pg_prepared_statements"
            " WHERE statement LIKE '%FROM memory_named(%'"
        )
        return int(cursor.fetchone()[0])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("task", "statements"), [("Please cancel my flight", 0), ("An SSD with USB and RGB", 0), ("tool_1 and tool_2", 1)]
)
def test_plain_english_costs_no_statement(task: str, statements: int) -> None:
    before = count_look_ups()

    find_named(uuid4(), task)

    assert count_look_ups() - before == statements


@pytest.mark.django_db
def test_first_names_of_a_task_are_looked_for() -> None:
    project = make_project()
    eighth, _ = serve(project, "tool_7 fails"), serve(project, "tool_8 fails")

    assert found_by(project, " ".join(f"tool_{number}" for number in range(50))) == {eighth.pk}


def test_name_counts_less_the_more_lessons_have_it_and_nothing_in_the_end() -> None:
    few, many = [uuid4() for _ in range(3)], [uuid4() for _ in range(MOST_LESSONS + 1)]
    shares = [
        max((one.share for one in weigh(["key"], [(1, revision, "key") for revision in revisions]).values()), default=0)
        for revisions in (few[:1], few, many)
    ]

    assert shares == [1.0, pytest.approx(0.476, abs=0.001), 0]


def answer(project: Project, task: str, **options: Any) -> RetrievalAnswer:
    return retrieve(Question(project=project, task=task, by=BY, record=False, **options))


@pytest.mark.django_db
def test_answer_says_which_name_it_found(settings: Any) -> None:
    settings.ERL_SERVING_ROLE = "erl_serving"
    project = make_project()
    serve(project, "The service answers ERR_CONN_RESET", guideline="Wait.")
    serve(project, "The service is asked for")

    exact = answer(project, "What does err-conn-reset mean?", mode="lexical").items[0]
    near = answer(project, "What does ERR_CONN_REST mean?", mode="hybrid").items[0]

    assert (exact["reason"], exact["scores"]["names"]) == ("It names ERR_CONN_RESET, as the task does.", 0.3)
    assert (near["reason"], near["scores"]["names"]) == ("It names ERR_CONN_RESET, nearly as the task does.", 0.1029)
    assert (exact["injected"], near["injected"]) == (True, True)


@pytest.mark.django_db
def test_wordings_from_before_get_their_names(settings: Any) -> None:
    project = make_project()
    wanted = serve(project, "ERR_CONN_RESET is answered")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE memory_heuristicrevision SET names = NULL")
        cursor.execute("SET LOCAL session_replication_role = origin")
    before = set(ServedChange.objects.filter(project_id=project.pk).values_list("pk", flat=True))
    assert found_by(project, "ERR_CONN_RESET") == set()

    assert (name_lessons(), name_lessons()) == (1, 0)

    assert found_by(project, "ERR_CONN_RESET") == {wanted.pk}
    assert ServedChange.objects.filter(project_id=project.pk).exclude(pk__in=before).count() == 1


@pytest.fixture
def memory() -> Iterator[None]:
    snapshots.clear()
    with override_settings(ERL_RETRIEVE_MEMORY_MB=64):
        yield
    snapshots.wait()
    snapshots.clear()


def look_for(project: Project, task: str, **options: Any) -> Search:
    embedder = get_embedder()
    assert embedder is not None
    vector = QueryVector(embedder.embed([task])[0])
    words = Search(project_id=project.pk, task=task, meaning_weight=0.5, limit=2, **options)
    return replace(words, vector=vector, model_id=embedder.model_id)


def search(project: Project, task: str, **options: Any) -> list[Candidate]:
    return find_candidates(look_for(project, task, **options), read_state(project.pk, task=task))


@pytest.mark.django_db(transaction=True)
def test_name_brings_a_lesson_into_question_from_memory_and_from_the_database(memory: None) -> None:
    project = make_project()
    for place in ("Rome", "Paris", "Oslo"):
        serve(project, f"Water the plants on the balcony in {place}")
    wanted = serve(project, f"{FAR}, but get_user_details", tags=["tool"])
    task = "Water the plants on the balcony after get_user_detial"
    assert snapshots.load(project.pk) is not None

    ways = [search(project, task), find_in_database(look_for(project, task))]
    tagged = search(project, task, filters=Filters(tags=("tool",)))
    others = search(project, task, filters=Filters(tags=("other",)))

    scores = [{one.heuristic_id: round(one.score, 4) for one in way} for way in ways]
    assert scores[0] == scores[1]
    assert wanted.pk in {one.heuristic_id for one in ways[0]}
    assert len(ways[0]) == 3
    assert [one.heuristic_id for one in tagged] == [wanted.pk]
    assert others == []
