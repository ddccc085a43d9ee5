"""Blocks over HTTP: edits, If-Match, history, decisions. What all endpoints share is tested for every operation."""

import uuid

import pytest

from tests.api.conftest import make_client
from tests.factories import make_api_key

pytestmark = pytest.mark.django_db
URL = "/api/v1/blocks"


def make(client, **fields):
    return client.post(URL, {"label": "human", "value": "Name: Ana"} | fields).json()


def test_edits_follow_each_other(api_client):
    made = make(api_client)
    path = f"{URL}/{made['id']}"

    api_client.post(f"{path}/append", {"text": "Drinks tea", "reason": "She said so."})
    api_client.post(f"{path}/replace", {"old": "tea", "new": "mint tea"})
    patched = api_client.post(f"{path}/patch", {"patch": "@@ -1 +1 @@\n-Name: Ana\n+Name: Ana Lima"})

    assert (patched.status_code, patched.headers["ETag"]) == (200, '"4"')
    assert patched.json()["value"] == "Name: Ana Lima\nDrinks mint tea"
    history = api_client.get(f"{path}/history").json()
    assert [(one["number"], one["operation"], one["base"]) for one in history["results"]] == [
        (4, "patch", 3),
        (3, "replace", 2),
        (2, "append", 1),
        (1, "create", None),
    ]
    assert history["results"][2]["reason"] == "She said so."
    undone = api_client.post(f"{path}/undo", {"to": 1}).json()
    assert (undone["value"], undone["content_sha256"]) == ("Name: Ana", made["content_sha256"])


@pytest.mark.parametrize("etag", ['"1"', '"other"'])
def test_old_if_match_answers_412_and_says_what_to_do(api_client, etag):
    path = f"{URL}/{make(api_client)['id']}"
    api_client.post(f"{path}/append", {"text": "Drinks tea"})

    response = api_client.patch(path, {"value": "x"}, headers={"If-Match": etag})

    assert (response.status_code, response.json()["error"]["code"]) == (412, "changed_meanwhile")
    assert "name the revision 2" in response.json()["detail"]
    assert api_client.patch(path, {"value": "x"}, headers={"If-Match": '"2"'}).status_code == 200


@pytest.mark.parametrize(
    ("edit", "body", "code", "says"),
    [
        ("append", {"text": "x" * 30}, "block_full", "40 characters, 10 more than the limit of 30"),
        ("replace", {"old": "a", "new": "b"}, "no_single_match", "occurs 2 times"),
        ("patch", {"patch": "@@ -1 +1 @@\n-Bob\n+Ana"}, "patch_does_not_apply", "hunk 1"),
        ("undo", {}, "nothing_changed", "no earlier value"),
    ],
)
def test_refusal_says_what_an_agent_can_do(api_client, edit, body, code, says):
    made = make(api_client, char_limit=30)

    response = api_client.post(f"{URL}/{made['id']}/{edit}", body)

    assert (response.status_code, response.json()["error"]["code"]) == (409, code)
    assert says in response.json()["detail"]


def test_read_only_block_is_changed_by_patch_alone(api_client):
    path = f"{URL}/{make(api_client, read_only=True)['id']}"

    assert api_client.post(f"{path}/append", {"text": "x"}).json()["error"]["code"] == "block_read_only"
    assert api_client.patch(path, {"value": "x"}).json()["value"] == "x"


def test_conversation_reads_its_own_view(api_client):
    path, conversation = f"{URL}/{make(api_client, policy='overlay')['id']}", str(uuid.uuid4())

    edited = api_client.post(f"{path}/append", {"text": "Drinks tea", "conversation_id": conversation}).json()

    assert (edited["value"], edited["made"]["status"]) == ("Name: Ana\nDrinks tea", "overlay")
    assert api_client.get(path).json()["value"] == "Name: Ana"
    assert api_client.get(f"{path}?conversation_id={conversation}").json()["value"] == "Name: Ana\nDrinks tea"
    assert api_client.get(f"{path}?conversation_id=x").status_code == 400


def test_key_without_review_proposes_and_does_not_decide(api_client, project):
    agent = make_client(make_api_key(project=project, scopes=["memory:read", "memory:write"]).token)
    block = make(agent, policy="propose")
    made = agent.post(f"{URL}/{block['id']}/append", {"text": "Drinks tea"}).json()
    decision = {"decision": "approve", "content_sha256": made["made"]["content_sha256"]}
    path = f"{URL}/revisions/{made['made']['id']}/decide"

    assert (made["value"], made["made"]["status"]) == ("Name: Ana", "proposed")
    assert agent.post(path, decision).status_code == 403
    decided = api_client.post(path, decision).json()
    assert (decided["value"], decided["made"]["status"]) == ("Name: Ana\nDrinks tea", "approved")
    assert api_client.post(path, decision).json()["error"]["code"] == "already_decided"


def test_append_under_a_key_happens_once(api_client):
    path = f"{URL}/{make(api_client)['id']}"
    options = {"headers": {"Idempotency-Key": "append-1"}}

    first, second = (api_client.post(f"{path}/append", {"text": "x"}, **options) for _ in range(2))

    assert (first.content, api_client.get(path).json()["revision"]) == (second.content, 2)


@pytest.mark.parametrize("wrong", [{"label": "<persona>"}, {"char_limit": 0}, {"policy": "free"}, {"unknown": 1}])
def test_invalid_block_answers_400(api_client, wrong):
    assert api_client.post(URL, {"label": "human"} | wrong).status_code == 400


def test_lists_cost_the_same_for_many(api_client, django_assert_max_num_queries):
    path = [f"{URL}/{make(api_client)['id']}" for _ in range(3)][-1]
    api_client.post(f"{path}/append", {"text": "x"})

    for address, queries in ((URL, 2), (f"{path}/history", 3)):
        with django_assert_max_num_queries(queries):
            assert api_client.get(address).json()["pagination"]["total"] >= 2


def test_passages_are_kept_found_and_deleted(api_client, other_client):
    owner = api_client.post("/api/v1/agents", {"name": "support"}).json()["id"]
    sent = {"text": "The cat is called Miso.", "tags": ["pets"], "owner": owner}

    first, again = (api_client.post("/api/v1/passages", sent) for _ in range(2))

    assert (first.status_code, again.status_code, first.json()) == (201, 200, again.json())
    found = api_client.post("/api/v1/passages/search", {"query": "cat Miso", "owner": owner, "tags": ["pets"]}).json()
    assert [one["id"] for one in found["results"]] == [first.json()["id"]]
    assert other_client.post("/api/v1/passages/search", {"query": "cat Miso"}).json()["results"] == []
    for query, total in (("tag=pets", 1), ("tag=x", 0), (f"owner={owner}", 1), (f"owner={uuid.uuid4()}", 0)):
        assert api_client.get(f"/api/v1/passages?{query}").json()["pagination"]["total"] == total
    path = f"/api/v1/passages/{first.json()['id']}"
    assert (api_client.delete(path).status_code, api_client.get(path).status_code) == (204, 404)


def test_block_by_its_name_alone_is_refused_with_what_to_send(api_client):
    answer = api_client.post("/api/v1/agents", {"name": "support", "blocks": ["customer"]})

    [text] = answer.json()["error"]["fields"]["/blocks/0"]
    assert (answer.status_code, '{"label": "customer", "block": "<id>"}' in text) == (400, True)


@pytest.mark.parametrize(("sent", "meant"), [("limit", "char_limit"), ("descripton", "description")])
def test_unknown_member_names_the_one_that_is_meant(api_client, sent, meant):
    answer = api_client.post(URL, {"label": "human", sent: 5})

    assert answer.json()["error"]["fields"] == {
        f"/{sent}": [f"This member is unknown. It may be {meant} that you mean; otherwise leave it out."]
    }
