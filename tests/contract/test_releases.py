"""Releases over HTTP: cut, compare, try, promote, roll back; answers by release; hold-out."""

import pytest

from memory.retrieval.models import Retrieval
from tests.factories import make_heuristic
from tests.product import embed_heuristics
from tests.releases import TASK, make_lesson

pytestmark = pytest.mark.django_db
FIRST, SECOND = "Check the fare class.", "Offer a later flight."


def approve(client, heuristic):
    body = {"content_sha256": heuristic.current_revision.content_sha256}
    assert client.post(f"/api/v1/heuristics/{heuristic.pk}/approve", body).status_code == 200
    embed_heuristics([heuristic.pk])


def ask(client, **options):
    return client.post("/api/v1/retrieve", {"task": TASK, "record": False} | options).json()


def get_guidelines(answer):
    return sorted(item["guideline"] for item in answer["items"])


@pytest.fixture
def staged(api_client, project):
    """Serve a release with one lesson; another lesson is approved since, and in a second release."""
    make_lesson(project, FIRST)
    assert api_client.patch("/api/v1/deployment", {"mode": "releases"}).status_code == 200
    waiting = make_heuristic(project=project, trigger="A customer asks to cancel a flight", guideline=SECOND)
    approve(api_client, waiting)
    return project


def test_release_goes_from_cut_to_roll_back(api_client, staged):
    assert api_client.get("/api/v1/deployment").json()["waiting"] == 1
    assert get_guidelines(ask(api_client)) == [FIRST]

    cut = api_client.post("/api/v1/releases", {"note": "later flights"})
    assert (cut.status_code, cut.json()["number"], cut.json()["lessons"]) == (201, 2, 2)
    assert api_client.post("/api/v1/releases").status_code == 200  # nothing new

    tried = api_client.post("/api/v1/deployment/canary", {"release": 2, "percent": 100}).json()
    assert (tried["stable"], tried["candidate"], tried["canary_percent"]) == (1, 2, 100.0)
    answer = ask(api_client)
    assert (get_guidelines(answer), answer["arm"], answer["release"]) == ([FIRST, SECOND], "candidate", 2)

    promoted = api_client.post("/api/v1/deployment/promote").json()
    assert (promoted["stable"], promoted["candidate"], promoted["previous"]) == (2, None, 1)
    assert ask(api_client)["arm"] == "stable"

    back = api_client.post("/api/v1/deployment/rollback", {"reason": "worse"}).json()
    assert (back["stable"], back["events"][0]["kind"], back["events"][0]["reason"]) == (1, "rolled_back", "worse")
    assert get_guidelines(ask(api_client)) == [FIRST]


def test_held_out_session_gets_an_empty_block(api_client, staged):
    api_client.patch("/api/v1/deployment", {"holdout_percent": 100})

    response = api_client.post("/api/v1/retrieve", {"task": TASK, "session": "s1"})

    assert response.status_code == 200
    body = response.json()
    assert (body["arm"], body["context"], body["items"], body["degraded"]) == ("holdout", "", [], False)
    record = api_client.get(f"/api/v1/retrievals/{body['retrieval_id']}").json()
    assert (record["arm"], record["unit"], record["options"]) == ("holdout", "session:s1", {"session": "s1"})


def test_pinned_release_answers_and_counts_in_no_arm(api_client, staged):
    sha256 = api_client.post("/api/v1/releases").json()["sha256"]

    answers = [ask(api_client, release=name) for name in ("2", sha256, sha256[:8])]

    assert {(*get_guidelines(answer), answer["arm"], answer["release"]) for answer in answers} == {
        (FIRST, SECOND, "pinned", 2)
    }
    row = Retrieval.objects.get(pk=answers[0]["retrieval_id"])
    assert (row.arm, row.unit, row.bucket) == ("pinned", "", None)


@pytest.mark.parametrize("name", ["7", "abcdefab"])
def test_pinned_release_that_is_not_kept_answers_404(api_client, staged, name):
    response = api_client.post("/api/v1/retrieve", {"task": TASK, "release": name})

    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("name", ["no release", "%", "-1", "abc"])
def test_name_that_no_release_can_have_answers_400(api_client, staged, name):
    response = api_client.post("/api/v1/retrieve", {"task": TASK, "release": name})

    assert (response.status_code, [*response.json()["error"]["fields"]]) == (400, ["/release"])


def test_diff_shows_the_words(api_client, staged):
    api_client.post("/api/v1/releases")

    diff = api_client.get("/api/v1/releases/1/diff/2").json()

    assert [one["after"]["guideline"] for one in diff["added"]] == [SECOND]
    assert (diff["before"], diff["after"], diff["removed"], diff["unchanged"]) == (1, 2, [], 1)


def test_promotion_without_a_candidate_answers_409(api_client, staged):
    response = api_client.post("/api/v1/deployment/promote")

    assert (response.status_code, response.json()["error"]["code"]) == (409, "not_deployable")


def test_promotion_under_a_key_happens_once(api_client, staged):
    api_client.post("/api/v1/releases")
    options = {"headers": {"Idempotency-Key": "promote-2"}}

    first, second = (api_client.post("/api/v1/deployment/promote", {"release": "2"}, **options) for _ in range(2))

    assert (first.status_code, second.content) == (200, first.content)
    assert api_client.get("/api/v1/deployment").json()["version"] == 2


def test_unknown_release_answers_404(api_client, project):
    assert api_client.get("/api/v1/releases/1").status_code == 404


@pytest.mark.parametrize("percent", [-0.1, 100.1, "10", None])
def test_share_outside_0_to_100_percent_answers_400(api_client, staged, percent):
    assert api_client.post("/api/v1/deployment/canary", {"release": "1", "percent": percent}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("deployment/canary", {"percent": 10}),
        ("deployment/promote", {}),
        ("retrieve", {"task": TASK}),
        ("experiments", {}),
    ],
)
def test_release_is_named_by_a_number_too(api_client, staged, path, body):
    api_client.post("/api/v1/releases")

    wrong = [api_client.post(f"/api/v1/{path}", body | {"release": name}).status_code for name in (2.5, True, 0)]

    assert wrong == [400, 400, 400]
    assert api_client.post(f"/api/v1/{path}", body | {"release": 2}).status_code in (200, 201)


def test_cutting_the_same_again_keeps_the_note_of_the_release(api_client, staged):
    api_client.post("/api/v1/releases", {"note": "later flights"})

    again = api_client.post("/api/v1/releases", {"note": "another"})

    assert (again.status_code, again.json()["number"], again.json()["note"]) == (200, 2, "later flights")
