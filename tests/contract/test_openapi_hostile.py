"""Bodies no honest client sends, against every operation that takes one: 4xx in the error shape, never 5xx (D10).

Each member and parameter gets some of the values, others in every run; all of them where `CHAOS_PROFILE=full`.
"""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from memory.projects.models import Project
from tests.api.hostile import BAD_BODIES, BAD_VALUES, HOSTILE, WRONG_TYPES
from tests.api.operations import DOCUMENT, OPERATIONS, WITH_BODY, Operation, fill_body, make_target
from tests.api.problems import read_problem
from tests.chaos.profile import FULL

pytestmark = [pytest.mark.nightly, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def _no_rate_limits(settings: Any) -> None:
    settings.ERL_RATE_LIMITS = []


WRONG: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "huge": 2**62,
    "huge-float": 1e308,
    "tiny-float": 5e-324,
    "empty-text": "",
    "blank": " \t\n",
    "text": "x",
    "long-text": "x" * 65_000,
    "controls": "\x01\x1b[31m\x7f\u202e\u2028",
    "astral": "\U0001f600\U0010ffff",
    "sql": "'; DROP TABLE memory_trajectory; --",
    "template": "{{ settings.SECRET_KEY }}{% debug %}",
    "empty-list": [],
    "list-of-null": [None],
    "list-of-lists": [[[[]]]],
    "list-of-objects": [{}],
    "many": ["x"] * 3_000,
    "empty-object": {},
    "object": {"a": {"b": [1]}},
    "object-with-odd-names": {"": 0, "$ref": "x", "__proto__": {}, "a.b": 1},
}
ODD = {
    "empty": "",
    "blank": " ",
    "nul": "\x00",
    "controls": "\x01\x1b\u202e\u2028",
    "astral": "\U0001f600\U0010ffff",
    "long": "x" * 5_000,
    "negative": "-1",
    "huge": "9" * 400,
    "float": "1e400",
    "arabic-digits": "\u0661\u0662",
    "sql": "' OR 1=1; --",
    "id": "019a0000-0000-7000-8000-000000000000",
}

OTHER_KINDS = ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]


@dataclass(frozen=True, kw_only=True)
class Case:
    operation: Operation
    place: str

    def __str__(self) -> str:
        return f"{self.operation}-{self.place}"


def draw(values: dict[str, Any]) -> list[Any]:
    """Return a third of the values, chosen by the seed that pytest prints; all of them in the full profile."""
    return random.sample([*values.values()], len(values) if FULL else len(values) // 3)


MEMBERS = [Case(operation=one, place=name) for one in WITH_BODY for name in one.schema["properties"]]
PARAMETERS = [
    Case(operation=one, place=parameter["name"])
    for one in OPERATIONS
    for parameter in DOCUMENT["paths"][one.path][one.method].get("parameters", ())
    if parameter["in"] == "query"
]


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_hostile_body_is_refused(api_client, project, operation):
    url = url_of(operation, project)
    send = getattr(api_client, operation.method)

    answers = {name: send(url, HOSTILE[name], content_type="application/json") for name in (*BAD_BODIES, *BAD_VALUES)}

    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code not in (400, 413)} == {}
    assert all(read_problem(answer) for answer in answers.values())


@pytest.mark.parametrize("case", MEMBERS, ids=str)
def test_wrong_member_is_taken_or_refused_but_never_breaks(api_client, project, case):
    url = url_of(case.operation, project)
    send = getattr(api_client, case.operation.method)
    body = fill_body(case.operation, project)

    answers = [send(url, body | {case.place: value}, format="json") for value in draw(WRONG)]

    refused = [answer for answer in answers if answer.status_code not in case.operation.success]
    assert {answer.status_code for answer in refused} <= {400, 404, 409}
    assert all(read_problem(answer) for answer in refused)


@pytest.mark.parametrize("case", PARAMETERS, ids=str)
def test_odd_query_is_taken_or_refused_but_never_breaks(api_client, project, case):
    url = url_of(case.operation, project)
    needed = {"task": "Cancel"} if case.operation.id == "getContext" else {}

    answers = [api_client.get(url, needed | {case.place: value}) for value in draw(ODD)]

    refused = [answer for answer in answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} <= {400, 404}  # 404: a release that there is not
    assert all(case.place in read_problem(answer)["error"]["fields"] for answer in refused if answer.status_code == 400)
    assert all(read_problem(answer) for answer in refused)


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_unknown_member_is_refused(api_client, project, operation):
    body = fill_body(operation, project) | {"unheard_of": 1}

    response = getattr(api_client, operation.method)(url_of(operation, project), body, format="json")

    assert response.status_code == 400
    assert "/unheard_of" in read_problem(response)["error"]["fields"]


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_body_of_another_kind_is_refused(api_client, project, operation):
    send, url = getattr(api_client, operation.method), url_of(operation, project)

    answers = {kind: send(url, b"task=x", content_type=kind) for kind in OTHER_KINDS}

    assert {kind: answer.status_code for kind, answer in answers.items()} == dict.fromkeys(OTHER_KINDS, 415)
    assert all(read_problem(answer) for answer in answers.values())


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_wrong_type_in_a_trajectory_is_refused(api_client, name):
    response = api_client.post("/api/v1/trajectories", WRONG_TYPES[name], content_type="application/json")

    assert response.status_code == 400
    assert read_problem(response)["error"]["fields"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_unknown_query_parameter_is_refused(api_client, project, operation):
    url = url_of(operation, project)

    response = getattr(api_client, operation.method)(f"{url}?colour=red", fill_body(operation, project))

    assert response.status_code == 400
    assert "colour" in read_problem(response)["error"]["fields"]


def url_of(operation: Operation, project: Project) -> str:
    return operation.path.replace("{id}", str(make_target(operation, project))) if operation.has_id else operation.path
