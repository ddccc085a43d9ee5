"""Turns the OpenAPI document into what the documentation page shows."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

TAGS = {
    "retrieval": "The lessons for a task about to be done.",
    "trajectories": "What agents did: finished runs with their steps and outcomes.",
    "reflections": "What is being learnt from them.",
    "heuristics": "The lessons, and what agents say about them.",
    "review": "Decisions on lessons. Nothing is served without one.",
    "health": "Whether the service runs.",
}
FIRST = ("retrieveLessons", "recordTrajectory", "reflect", "proposeHeuristic")  # what people come for
MAX_DEPTH = 3
MAX_CURL_BODY_LINES = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A parameter, or a member of a body; nested ones are named by their path."""

    name: str
    kind: str
    required: bool
    place: str = ""
    text: "Text" = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    status: str
    text: "Text"
    media_type: str = ""
    example: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    summary: str
    paragraphs: list["Text"]
    scopes: list[str]
    parameters: list[Member]
    body: list[Member]
    curl: str
    answers: list[Answer]
    errors: list[Answer]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    name: str
    about: str
    operations: list[Operation] = field(default_factory=list)


Text = tuple[tuple[bool, str], ...]
"""A text in pieces; True marks those that were in backticks."""


def build_sections(document: Json) -> list[Section]:
    """Return the operations of an OpenAPI document by tag."""
    sections = {name: Section(name=name, about=about) for name, about in TAGS.items()}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = operation["tags"][0]
            section = sections.setdefault(name, Section(name=name, about=""))
            section.operations.append(_operation(document, path, method, operation))
    for section in sections.values():
        section.operations.sort(key=lambda operation: operation.id not in FIRST)
    return [section for section in sections.values() if section.operations]


def split_code(text: str) -> Text:
    """Take a text with `code` apart."""
    return tuple((index % 2 == 1, part) for index, part in enumerate(text.split("`")) if part)


def _operation(document: Json, path: str, method: str, operation: Json) -> Operation:
    text = re.sub(r"\n*Scope: .*$", "", operation.get("description", ""))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    answers = [_answer(document, status, answer) for status, answer in operation["responses"].items()]
    return Operation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation.get("summary", ""),
        paragraphs=[split_code(part) for part in text.split("\n\n") if part],
        scopes=[scope for requirement in operation.get("security", []) for scope in requirement.get("apiKey", [])],
        parameters=[_parameter(document, one) for one in operation.get("parameters", ())],
        body=list(_members(document, body.get("schema", {}))),
        curl=_curl(path, method, operation, body.get("example")),
        answers=[answer for answer in answers if answer.status < "400"],
        errors=[answer for answer in answers if answer.status >= "400"],
    )


def _answer(document: Json, status: str, answer: Json) -> Answer:
    answer = _resolve(document, answer)
    contents: Json = answer.get("content", {})
    media_type = next(iter(contents), "")
    content: Json = contents.get(media_type, {})
    example = content.get("example", "")
    shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    return Answer(status=status, text=split_code(answer.get("description", "")), media_type=media_type, example=shown)


def _parameter(document: Json, parameter: Json) -> Member:
    return Member(
        name=parameter["name"],
        kind=_kind(document, parameter["schema"]),
        required=parameter.get("required", False),
        place=parameter["in"],
        text=split_code(parameter.get("description", "")),
    )


def _members(document: Json, schema: Json, prefix: str = "", depth: int = 1) -> Iterator[Member]:
    schema = _resolve(document, schema)
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        if inner.get("readOnly"):
            continue
        yield Member(
            name=prefix + name,
            kind=_kind(document, inner),
            required=name in required and not prefix,
            text=split_code(_find(document, inner, "description")),
        )
        if depth < MAX_DEPTH:
            below = _resolve(document, inner)
            mark = "[]" if "items" in below else ""
            yield from _members(document, below.get("items", below), f"{prefix}{name}{mark}.", depth + 1)


def _kind(document: Json, schema: Json) -> str:
    """Name a schema's type in a few words."""
    schema = _resolve(document, schema)
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_kind(document, option) for option in schema[word]))
    kinds = schema.get("type", "any")
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    if "array" in names and (items := _kind(document, schema.get("items", {}))) != "any":
        names[names.index("array")] = f"array of {items}"
    return " or ".join(names) + _limits(schema)


def _limits(schema: Json) -> str:
    parts = [
        f"{word} {schema[name]}"
        for name, word in (("minimum", "from"), ("maximum", "to"), ("maxLength", "up to"), ("default", "default"))
        if schema.get(name) not in (None, "", [])
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _find(document: Json, schema: Json, name: str) -> str:
    value: str = schema.get(name) or _resolve(document, schema).get(name, "")
    return value if "\n" not in value else value.partition("\n")[0]


def _resolve(document: Json, node: Json) -> Json:
    """Follow references, also through the wrapper that gives a reference a description."""
    while True:
        if "$ref" in node:
            target: Any = document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        elif len(node.get("allOf", ())) == 1:
            node = node["allOf"][0]
        else:
            return node


def _curl(path: str, method: str, operation: Json, body: Any) -> str:
    lines = [f'curl "$ERL_URL{_filled(path)}{_query(operation)}"']
    if method not in ("get", "post") or (method == "post" and body is None):
        lines[0] = lines[0].replace("curl ", f"curl -X {method.upper()} ", 1)
    if operation.get("security"):
        lines.append('-H "Authorization: Bearer $ERL_API_KEY"')
    if body is not None:
        lines.append('-H "Content-Type: application/json"')
        text = json.dumps(body, indent=2, ensure_ascii=False)
        if text.count("\n") > MAX_CURL_BODY_LINES:
            text = json.dumps(body, ensure_ascii=False)
        lines.append(f"-d {shlex.quote(text)}")
    return " \\\n  ".join(lines)


def _filled(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: f"${match[1].upper()}", path)


def _query(operation: Json) -> str:
    required: Iterable[Json] = (p for p in operation.get("parameters", ()) if p["in"] == "query" and p.get("required"))
    named = "&".join(f"{parameter['name']}=Cancel+a+ticket" for parameter in required)
    return f"?{named}" if named else ""
