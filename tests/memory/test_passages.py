"""Passages: kept once, found by meaning, words, names, tags and time."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from memory.errors import InvalidInput
from memory.index.heuristic_vectors import get_active_model
from memory.index.vector_index import keep_index
from memory.passages.models import Passage, PassageEmbedding
from memory.passages.search import PassageQuery, search_passages
from memory.passages.storage import NewPassage, delete_passage, insert_passage
from memory.passages.vectors import embed_new_passages
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.trust.erasure import erase_trajectory
from tests.factories import make_project, make_trajectory
from tests.runtime.running import make_agent, make_run

pytestmark = pytest.mark.django_db
BY = Actor(label="agent:helper")
TEXTS = [
    "The customer's cat is called Miso and sleeps all day.",
    "Invoices are sent on the first working day of the month.",
    "The deployment failed with ERR_CERT_EXPIRED on the staging server.",
]


def keep(project: Project, text: str, **more: object) -> Passage:
    return insert_passage(project, NewPassage(text=text, **more), by=BY)[0]  # type: ignore[arg-type]


def find(project: Project, text: str, **more: object) -> list[str]:
    found = search_passages(project, PassageQuery(text=text, **more))  # type: ignore[arg-type]
    return [each.passage.text for each in found.passages]


@pytest.fixture
def archive(project: Project, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Project:
    with django_capture_on_commit_callbacks(execute=True):
        for text in TEXTS:
            keep(project, text)
    return project


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("What is the name of the pet?", 0),
        ("When do bills go out?", 1),
        ("err_cert_expired", 2),
        ("staging server", 2),
    ],
    ids=["meaning", "other words", "name", "words"],
)
def test_search_finds_by_meaning_words_and_names(archive: Project, query: str, first: int) -> None:
    assert find(archive, query)[0] == TEXTS[first]


def test_in_a_language_that_the_model_does_not_know_words_decide(
    project: Project, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    texts = ["顾客要退款时先核对订单。", "打印机不出纸时删掉第一个任务。"]
    with django_capture_on_commit_callbacks(execute=True):
        for text in texts:
            keep(project, text)
    assert [find(project, task) for task in ("这位顾客的订单能退款吗？", "溏心蛋要煮几分钟？")] == [texts[:1], []]


def test_floor_is_that_of_the_language_by_the_model(archive: Project) -> None:
    model = get_active_model()
    before = find(archive, "What is the name of the pet?")
    model.floors = {"english": 0.99}  # as of a model to which all texts are similar
    model.save()
    assert (len(before) > 0, find(archive, "What is the name of the pet?")) == (True, [])


def test_passage_is_found_by_its_words_before_it_has_a_vector(project: Project) -> None:
    keep(project, TEXTS[0])

    assert PassageEmbedding.objects.get().vector is None
    assert find(project, "cat Miso") == [TEXTS[0]]
    assert embed_new_passages() == 1
    assert embed_new_passages() == 0
    assert find(project, "pet") == [TEXTS[0]]


def test_same_text_of_one_owner_is_kept_once(project: Project) -> None:
    owner = make_agent(project=project).pk
    for whose in (None, owner, None, owner):
        keep(project, TEXTS[0], owner=whose)

    assert Passage.objects.count() == 2
    assert PassageEmbedding.objects.count() == 2


def test_owner_finds_its_own_and_shared_passages(project: Project) -> None:
    mine, other = (make_agent(project=project, name=name).pk for name in ("mine", "other"))
    for owner, name in ((mine, "mine"), (other, "other"), (None, "shared")):
        keep(project, f"The cat is {name}", owner=owner)

    assert set(find(project, "cat", owner=mine)) == {"The cat is mine", "The cat is shared"}
    assert len(find(project, "cat")) == 3
    assert find(make_project(), "cat") == []


@pytest.mark.parametrize(("all_tags", "found"), [(False, {"a", "b", "c"}), (True, {"c"})])
def test_tags_match_any_or_all(project: Project, all_tags: bool, found: set[str]) -> None:
    for name, tags in (("a", ["red"]), ("b", ["big"]), ("c", ["red", "big"]), ("d", [])):
        keep(project, f"cat {name}", tags=tags)

    texts = find(project, "cat", tags=["red", "big"], all_tags=all_tags)

    assert {text.removeprefix("cat ") for text in texts} == found


def test_time_begins_with_since_and_ends_before_until(project: Project) -> None:
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    for number, day in enumerate(days):
        keep(project, f"cat {number}", created_at=day)

    assert find(project, "cat", since=days[1], until=days[2]) == ["cat 1"]
    assert find(project, "cat", until=days[0] + timedelta(seconds=1)) == ["cat 0"]


def test_pages_follow_each_other(project: Project) -> None:
    for number in range(5):
        keep(project, f"cat number {number}")

    query = PassageQuery(text="cat")
    whole = search_passages(project, query, limit=5)
    pages = [search_passages(project, query, limit=2, offset=offset) for offset in (0, 2, 4)]

    assert [each.passage.pk for page in pages for each in page.passages] == [each.passage.pk for each in whole.passages]
    assert {page.total for page in pages} == {5}


def test_without_an_embedder_words_are_searched(settings: object, project: Project, fresh_embedders: None) -> None:
    settings.ERL_EMBEDDER = "none"  # type: ignore[attr-defined]
    keep(project, TEXTS[0])

    found = search_passages(project, PassageQuery(text="cat"))

    assert (found.degraded, found.total) == (True, 1)


def test_search_costs_the_same_for_many_passages(
    archive: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    get_active_model()  # as the first lesson does
    find(archive, "cat")
    with django_assert_num_queries(5):  # the model, the language, the index, the comparison, the rows
        find(archive, "cat")


@pytest.mark.django_db(transaction=True)
def test_search_by_the_index_finds_what_a_comparison_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    project, day = make_project(), datetime(2026, 1, 1, tzinfo=UTC)
    owner = make_agent(project=project).pk
    get_active_model()  # as the first lesson does
    for number, text in enumerate(TEXTS * 4):
        keep(project, f"{text} ({number})", owner=[owner, None][number % 2], tags=["red"] * (number % 3 == 0))
    keep(project, "An old cat", created_at=day)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("the pet's name", {}),
        ("err_cert_expired", {}),
        ("bills", {"owner": owner}),
        ("cat", {"tags": ["red"]}),
    ]
    asked += [("cat", {"until": day + timedelta(days=1)})]
    compared = [find(project, text, **narrowed) for text, narrowed in asked]

    monkeypatch.setattr("memory.passages.search.FEW", 0)
    assert keep_index(PassageEmbedding, threshold=1)
    assert [find(project, text, **narrowed) for text, narrowed in asked] == compared

    monkeypatch.setattr("memory.passages.search.BREADTH", 1)
    monkeypatch.setattr("memory.passages.search.MATCHES", 0)
    assert len(find(project, "the pet's name")) == 1  # the index was asked, for one passage
    assert not keep_index(PassageEmbedding, threshold=100)
    assert [find(project, text, **narrowed) for text, narrowed in asked] == compared


def test_word_of_many_passages_is_counted_among_the_newest(project: Project) -> None:
    model = get_active_model().pk
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH kept AS (INSERT INTO memory_passage (id, project_id, text, text_sha256, tags, created_by)"
            " SELECT gen_random_uuid(), %s, n::text, encode(sha256(n::text::bytea), 'hex'), '{}', 'test'"
            " FROM generate_series(1, 6000) AS n RETURNING id, text)"
            " INSERT INTO memory_passageembedding (project_id, passage_id, embedding_model_id, term_ids, names)"
            " SELECT %s, k.id, %s, (SELECT array_agg(term) FROM memory_terms(%s, CASE"
            "     WHEN text::int <= 3 THEN 'walrus' WHEN text::int %% 2 = 0 THEN 'invoice' ELSE 'cat' END)), ''"
            " FROM kept k",
            [project.pk, project.pk, model, project.pk],
        )
        cursor.execute("SELECT texts FROM memory_passage_words(%s, %s, 'walrus')", [project.pk, model])
        rare = cursor.fetchone()[0]
        cursor.execute("SELECT texts FROM memory_passage_words(%s, %s, 'invoice')", [project.pk, model])
        frequent = cursor.fetchone()[0]

    assert rare == 3
    assert frequent == pytest.approx(2999, rel=0.05)


def test_secrets_are_removed_and_searched_as_they_are_kept(project: Project) -> None:
    passage = keep(project, "Write to ana.miller@example.org about the cat")

    assert "ana.miller" not in passage.text
    assert find(project, "ana.miller@example.org") == [passage.text]


def test_deleted_passage_is_gone(project: Project) -> None:
    delete_passage(keep(project, TEXTS[0]), by=BY)

    assert not Passage.objects.exists()
    assert not PassageEmbedding.objects.exists()


@pytest.mark.parametrize("wrong", [{"text": ""}, {"created_by": ""}, {"text_sha256": "x"}])
def test_constraints_of_a_passage(project: Project, wrong: dict[str, str]) -> None:
    fields = {"text": "x", "created_by": "test", "text_sha256": "0" * 64} | wrong

    with pytest.raises(IntegrityError), transaction.atomic():
        Passage.objects.create(project=project, **fields)


def test_passage_never_changes(project: Project) -> None:
    keep(project, TEXTS[0])

    with pytest.raises(IntegrityError, match="immutable"), transaction.atomic():
        Passage.objects.update(text="other")


@pytest.mark.parametrize("member", ["owner", "run_id"])
@pytest.mark.parametrize("exists", [True, False])
def test_passage_names_no_agent_and_no_run_of_another_project(project: Project, member: str, exists: bool) -> None:
    other = make_project()
    theirs = {"owner": make_agent(project=other).pk, "run_id": make_trajectory(project=other).pk}

    with pytest.raises(InvalidInput, match=r"No (agent|run) with this id exists in this project"):
        keep(project, TEXTS[0], **{member: theirs[member] if exists else uuid.uuid4()})

    assert not Passage.objects.exists()


def test_passage_comes_from_a_run_that_is_recorded_or_goes_on(project: Project) -> None:
    recorded, under_way = make_trajectory(project=project), make_run(make_agent(project=project))

    assert keep(project, "of a recorded run", run_id=recorded.pk).run_id == recorded.pk
    assert keep(project, "of one that goes on", run_id=under_way.pk).run_id == under_way.pk


def test_erased_run_takes_no_passages_of_another_project(project: Project) -> None:
    theirs = make_trajectory()
    Passage.objects.create(  # as before it was checked
        project=project, text="x", text_sha256="0" * 64, run_id=theirs.pk, created_by="key:ci"
    )

    erase_trajectory(theirs, by=BY)

    assert Passage.objects.exists()
