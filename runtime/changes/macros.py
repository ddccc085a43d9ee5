"""Write a tool that makes a repeated sequence of calls in one step.

Where an argument comes from is read off the occurrences: it is always the same, it stood in an earlier answer, it is
the same as an earlier argument, or it is a parameter. Nothing else is guessed, so a macro is a few lines that a person
reads in ten seconds. The description says the same as JSON, for the model that decides whether to call it.
"""

import hashlib
import json
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runtime.changes.sequences import Occurrence, Repeated
from runtime.definitions.values import Example, ToolDefinition

CALLS = "Makes these calls in one step, in this order: "
EXAMPLES = 2
MOST_CASES = 20
DEEPEST = 4  # levels of an answer in which a value is looked for
_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list[Any]",
    dict: "dict[str, Any]",
}
_SCHEMAS = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "list[Any]": "array",
    "dict[str, Any]": "object",
}
Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MacroSource:
    """Where an argument comes from: a constant, a path in an earlier answer, or a parameter."""

    constant: Any = None
    parameter: str = ""
    answer: int = -1
    path: Path = ()

    def as_json(self) -> dict[str, Any]:
        if self.parameter:
            return {"parameter": self.parameter}
        if self.answer >= 0:
            return {"answer": self.answer + 1, "path": list(self.path)}
        return {"is": self.constant}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Macro:
    """A tool, and the recorded occurrences that it stands for, with the arguments that it would have had."""

    definition: ToolDefinition
    cases: tuple[tuple[dict[str, Any], Occurrence], ...]
    repeated: Repeated

    @property
    def recorded_cases(self) -> list[dict[str, Any]]:
        """The recorded calls that it stands for, as the evidence of a change; none where they were not recorded."""
        return [
            {"tool": self.definition.name, "arguments": arguments, "effects": [call.id for call in calls]}
            for arguments, calls in self.cases[:MOST_CASES]
            if all(call.id for call in calls)
        ]


def write_macro(repeated: Repeated) -> Macro | None:
    """Return a macro for a sequence; None where it could not be written, or would only rename a call."""
    sources, types = _find_sources(repeated)
    cases = tuple((_read_arguments(sources, item), item) for item in repeated.occurrences)
    if any(not json_like(value) for arguments, _ in cases for value in arguments.values()):
        return None
    calls = [
        [call.tool, {argument: sources[index, argument].as_json() for argument in call.arguments}]
        for index, call in enumerate(repeated.occurrences[0])
    ]
    written = json.dumps(calls, ensure_ascii=False)
    # The name follows from the calls, so the same sequence is always the same tool.
    name = f"{_name(repeated.tools)}_{hashlib.sha256(written.encode()).hexdigest()[:4]}"
    definition = ToolDefinition(
        name=name,
        description=f"{CALLS}{written}. Returns their answers as a list.",
        parameters={
            "type": "object",
            "properties": {item: {"type": _SCHEMAS[kind]} if kind in _SCHEMAS else {} for item, kind in types.items()},
            "required": list(types),
        },
        source=_write_source(name, repeated, sources, types),
        uses=tuple(dict.fromkeys(repeated.tools)),
        examples=tuple(_write_examples(repeated, cases)),
    )
    return Macro(definition=definition, cases=cases, repeated=repeated)


def read_calls(description: str) -> list[tuple[str, dict[str, dict[str, Any]]]]:
    """Return what a macro says that it calls, from its description; nothing for other tools."""
    if not description.startswith(CALLS):
        return []
    calls, _ = json.JSONDecoder().raw_decode(description.removeprefix(CALLS))
    return [(tool, arguments) for tool, arguments in calls]


def json_like(value: Any) -> bool:
    """Tell whether a value can be an argument."""
    return value is None or isinstance(value, bool | int | float | str | list | dict)


def _find_sources(repeated: Repeated) -> tuple[dict[tuple[int, str], MacroSource], dict[str, str]]:
    sources: dict[tuple[int, str], MacroSource] = {}
    parameters: dict[str, tuple[Any, ...]] = {}
    types: dict[str, str] = {}
    first = repeated.occurrences[0]
    for index, call in enumerate(first):
        for argument in call.arguments:
            values = tuple(occurrence[index].arguments[argument] for occurrence in repeated.occurrences)
            same = next((name for name, others in parameters.items() if _equal(others, values)), "")
            from_answer = _find_in_answers(repeated, index, values)
            # What never changes is a constant, but a single occurrence does not tell.
            if len(repeated.occurrences) > 1 and all(_same(value, values[0]) for value in values):
                sources[index, argument] = MacroSource(constant=values[0])
            elif from_answer is not None:
                sources[index, argument] = from_answer
            elif same:
                sources[index, argument] = MacroSource(parameter=same)
            else:
                name = _unique(argument, parameters)
                parameters[name] = values
                types[name] = _type_of(values)
                sources[index, argument] = MacroSource(parameter=name)
    return sources, types


def _find_in_answers(repeated: Repeated, index: int, values: tuple[Any, ...]) -> MacroSource | None:
    for earlier in range(index):
        # Paths are looked for in the first occurrence, and have to hold in all.
        for path in _paths(repeated.occurrences[0][earlier].value, values[0]):
            answers = (_get(occurrence[earlier].value, path) for occurrence in repeated.occurrences)
            if all(_same(answer, value) for answer, value in zip(answers, values, strict=True)):
                return MacroSource(answer=earlier, path=path)
    return None


def _paths(answer: Any, wanted: Any, at: Path = ()) -> Iterator[Path]:
    # These values occur in many answers by chance.
    if at and _same(answer, wanted) and wanted not in (None, "", True, False, 0, 1):
        yield at
    if len(at) < DEEPEST and isinstance(answer, dict):
        for name, value in answer.items():
            yield from _paths(value, wanted, (*at, name))
    elif len(at) < DEEPEST and isinstance(answer, list):
        for index, value in enumerate(answer[:20]):
            yield from _paths(value, wanted, (*at, index))


def _get(answer: Any, path: Path) -> Any:
    for part in path:
        try:
            answer = answer[part]
        except (KeyError, IndexError, TypeError):
            return _Nothing
    return answer


class _Nothing: ...


def _read_arguments(sources: dict[tuple[int, str], MacroSource], occurrence: Occurrence) -> dict[str, Any]:
    return {
        source.parameter: occurrence[index].arguments[argument]
        for (index, argument), source in sources.items()
        if source.parameter
    }


def _write_source(
    name: str, repeated: Repeated, sources: dict[tuple[int, str], MacroSource], types: dict[str, str]
) -> str:
    signature = ", ".join(f"{parameter}: {kind}" for parameter, kind in types.items())
    lines = ["from typing import Any", "", "", f"def {name}({signature}) -> list[Any]:"]
    for index, call in enumerate(repeated.occurrences[0]):
        given = ", ".join(f"{argument}={_write(sources[index, argument])}" for argument in call.arguments)
        lines.append(f"    answer_{index + 1} = {call.tool}({given})")
    answers = ", ".join(f"answer_{index + 1}" for index in range(len(repeated.tools)))
    return "\n".join([*lines, f"    return [{answers}]", ""])


def _write(source: MacroSource) -> str:
    if source.parameter:
        return source.parameter
    if source.answer >= 0:
        return f"answer_{source.answer + 1}" + "".join(f"[{part!r}]" for part in source.path)
    return repr(source.constant)


def _write_examples(repeated: Repeated, cases: tuple[tuple[dict[str, Any], Occurrence], ...]) -> Iterator[Example]:
    """Return examples of occurrences in which no tool is called twice: an example has one answer for each."""
    once = len(set(repeated.tools)) == len(repeated.tools)
    for arguments, occurrence in cases[:EXAMPLES]:
        host = {call.tool: call.value for call in occurrence}
        yield Example(arguments=arguments, answer=[host[call.tool] for call in occurrence] if not once else
                      [call.value for call in occurrence], host=host)  # fmt: skip


def _name(tools: tuple[str, ...]) -> str:
    shortened = [re.sub(r"^[A-Za-z]+API_|^[A-Z][A-Za-z]+_", "", tool) or tool for tool in tools]
    return re.sub(r"\W", "_", "_then_".join(dict.fromkeys(shortened)))[:55].rstrip("_")


def _unique(argument: str, taken: dict[str, Any]) -> str:
    name = f"{argument}_" if keyword.iskeyword(argument) else argument
    number = 2
    while name in taken:
        name, number = f"{argument}_{number}", number + 1
    return name


def _type_of(values: tuple[Any, ...]) -> str:
    kinds = {_TYPES.get(type(value), "Any") for value in values}
    if kinds <= {"int", "float"}:
        return "int" if kinds == {"int"} else "float"
    return kinds.pop() if len(kinds) == 1 else "Any"


def _equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(_same(a, b) for a, b in zip(one, other, strict=True))


def _same(one: Any, other: Any) -> bool:
    # To Python, 1, 1.0 and True are equal. In JSON they are not.
    return type(one) is type(other) and bool(one == other)
