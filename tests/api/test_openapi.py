"""The OpenAPI document: complete, valid, committed, and true."""

import json
import os
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.urls import URLResolver, get_resolver
from jsonschema import Draft202012Validator

from memory.api.base import ApiView
from memory.api.documentation import build_document
from memory.api.schema import EXAMPLES, load_examples
from memory.projects.models import ApiKey
from tests.api.conftest import make_client
from tests.api.recorded import record_examples
from tests.factories import make_api_key

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.yaml"
OPERATIONS = {
    operation["operationId"]: operation
    for path in yaml.safe_load(COMMITTED.read_text())["paths"].values()
    for operation in path.values()
}
# nothing, or a stream
WITHOUT_ANSWER = {"archiveAgent", "deleteConversation", "deletePassage", "eraseTrajectory", "followRun"}
API_OPERATIONS = sorted(name for name, operation in OPERATIONS.items() if operation["security"])


def test_committed_document_is_the_generated_one():
    out = StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=out)

    assert yaml.safe_load(out.getvalue()) == yaml.safe_load(COMMITTED.read_text()), (
        "The API changed. Run `manage.py spectacular --validate --file docs/openapi.yaml` and commit the file."
    )


def test_document_has_every_route_of_the_api():
    routes = {re.sub(r"<\w+:(\w+)>", r"{\1}", route) for route in _routes(get_resolver().url_patterns)}

    assert {f"/{route}" for route in routes} == {path for path in build_document()["paths"] if "/v1/" in path}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_operation_is_described(name):
    operation = OPERATIONS[name]

    assert operation["tags"]
    assert operation["summary"]
    assert operation["description"]
    assert "Subclasses say" not in operation["description"]  # as where an operation has no description of its own
    assert all(answer.get("$ref") or answer["description"] for answer in operation["responses"].values())


@pytest.mark.parametrize("name", API_OPERATIONS)
def test_operation_names_its_scope_and_its_errors(name):
    operation = OPERATIONS[name]

    (requirement,) = operation["security"]
    assert requirement["apiKey"]
    assert set(requirement["apiKey"]) <= set(ApiKey.Scope.values)
    assert {"400", "401", "403", "500", "503"} <= set(operation["responses"])


@pytest.mark.parametrize("name", sorted(set(API_OPERATIONS) - WITHOUT_ANSWER))
def test_operation_has_an_example(name):
    assert load_examples()[name]["responses"]
    assert ("requestBody" in OPERATIONS[name]) == ("request" in load_examples()[name])


@pytest.mark.django_db(transaction=True)
def test_examples_are_what_the_api_answers(transactional_db):
    client = make_client(make_api_key().token)

    fresh = record_examples(client, make_client(""))
    if os.environ.get("RECORD_EXAMPLES"):
        EXAMPLES.write_text(json.dumps(fresh, indent=1, ensure_ascii=False) + "\n")
        load_examples.cache_clear()

    assert list(_differences(load_examples(), fresh)) == []


@pytest.mark.parametrize("name", sorted(set(API_OPERATIONS) - WITHOUT_ANSWER))
def test_examples_match_their_schemas(name):
    document = build_document()
    faults = []
    for status, body in load_examples()[name]["responses"].items():
        for content in OPERATIONS[name]["responses"][status]["content"].values():
            faults += _faults(document, content["schema"], body)
    if "request" in load_examples()[name]:
        content = OPERATIONS[name]["requestBody"]["content"]["application/json"]
        faults += _faults(document, content["schema"], load_examples()[name]["request"])

    assert faults == []


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["", "?task=Cancel a booking"])
def test_empty_list_matches_its_schema(query):
    answer = make_client(make_api_key().token).get(f"/api/v1/heuristics{query}")

    schema = OPERATIONS["listHeuristics"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer.json()["results"] == []
    assert _faults(build_document(), schema, answer.json()) == []


def test_schema_is_served_as_json(client):
    response = client.get("/api/schema")

    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response.json()["openapi"] == "3.1.0"


def test_schema_is_served_as_yaml(client):
    response = client.get("/api/schema?format=yaml")

    assert response["Content-Type"] == "application/yaml"
    assert yaml.safe_load(response.content) == build_document()


def test_schema_in_another_format_answers_400(client):
    response = client.get("/api/schema?format=xml")

    assert response.status_code == 400
    assert response.json()["error"]["fields"] == {"format": ["Send json or yaml."]}


def test_schema_takes_no_post(client):
    response = client.post("/api/schema")

    assert response.status_code == 405
    assert response["Content-Type"] == "application/problem+json"


def _routes(patterns: list[Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            found |= _routes(pattern.url_patterns, route)
            continue
        view: Any = getattr(pattern.callback, "cls", object)
        if issubclass(view, ApiView) and view.schema is not None:  # /otlp/v1/traces is OpenTelemetry's contract
            found.add(route)
    return found


def _differences(kept: Any, fresh: Any, place: str = "") -> Iterator[str]:
    """Compare member names and kinds; ids, times and texts differ from run to run, and scores with the ranking.

    In which arm of an experiment a run counts is chance.
    """
    if kept is None or fresh is None or place.endswith(("/scores", "/outcomes")):
        return
    if isinstance(kept, dict) and isinstance(fresh, dict):
        yield from (f"{place}/{name}" for name in kept.keys() ^ fresh.keys())
        for name in kept.keys() & fresh.keys():
            yield from _differences(kept[name], fresh[name], f"{place}/{name}")
    elif isinstance(kept, list) and isinstance(fresh, list):
        if kept and fresh:
            yield from _differences(kept[0], fresh[0], f"{place}/0")
    elif type(kept) is not type(fresh) and not {type(kept), type(fresh)} <= {int, float}:
        yield place


def _faults(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    validator = Draft202012Validator(schema | {"components": document["components"]})
    return [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(value)]
