"""Check a tool in the sandbox before it is stored: its types, and its examples."""

import ast
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from keyword import iskeyword
from typing import Any

from pydantic_monty import MontyError, MontySyntaxError, MontyTypingError

from reflection.llm.tool_schemas import modernize
from runtime.definitions.values import Example, ToolDefinition
from runtime.errors import Fault, InvalidArguments, InvalidDefinition
from runtime.http_tools import read_request
from runtime.models.tools import ToolRuntime
from runtime.sandbox import HostError, SandboxCall, SandboxError, SharedSeconds, read_limits, run_tool
from runtime.sandbox.calls import BUSY, MOST
from runtime.sandbox.hosts import find_sandlock
from runtime.sandbox.json_values import NotJson, to_json_value
from runtime.sandbox.workers import get_pool
from runtime.schema import check_arguments, find_schema_faults
from runtime.tools.catalogue import core_tools

FROZEN_AT = datetime(2026, 1, 1, tzinfo=UTC)  # the clock of examples
MAX_EXAMPLES = 20
MAX_CHARS = 100_000
CHECK_SECONDS = 10.0
EXAMPLE_SECONDS = MOST.seconds  # for all examples together: a request waits for them
_PYTHON_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list[Any]",
    "object": "dict[str, Any]",
    "null": "None",
}


def check_tool(definition: ToolDefinition, *, known: Mapping[str, Mapping[str, Any]]) -> None:
    """Check a definition as far as that can be done without its service.

    Args:
        known: the schemas of the tools that it may use, by name; others in `uses` are refused.

    Raises:
        InvalidDefinition: with every fault that was found; lines are those of the file it was read from.
    """
    faults = find_form_faults(definition)
    faults += [
        Fault(f"{definition.name} uses {name}, which is no tool of the project.", _line(definition, 1))
        for name in definition.uses
        if name not in known
    ]
    if not faults and definition.runtime == ToolRuntime.HTTP:
        read_request(definition.request, definition.parameters)
    # The source is run only where nothing is wrong with its form.
    if not faults and definition.source:
        faults += find_type_faults(definition, known)
    if not faults and definition.source:
        faults += find_example_faults(definition)
    if faults:
        raise InvalidDefinition(faults)


def find_form_faults(definition: ToolDefinition) -> list[Fault]:
    """Return what keeps a definition from being stored at all: its sizes, its schema, its parts."""
    faults = [Fault(message, member="parameters") for message in find_schema_faults(dict(definition.parameters))]
    if definition.name in core_tools():
        message = f"{definition.name} is one of ERL's own tools. Give yours another name."
        faults.append(Fault(message, _line(definition, 1), member="name"))
    if definition.runtime == ToolRuntime.PYTHON and not (offer := find_sandlock()).works:
        message = (
            f"{definition.name}: this host runs no tools of the runtime python. {offer.why_not} {offer.todo} Or write "
            "it for monty, or as a request with http_tool."
        )
        faults.append(Fault(message, _line(definition, 1), member="runtime"))
    return faults + _check_sizes(definition) + _check_parts(definition)


def find_example_faults(definition: ToolDefinition, *, seconds: SharedSeconds | None = None) -> list[Fault]:
    """Run the examples in the sandbox, and return where one answers something else.

    Args:
        seconds: what they may take together, where other tools are checked too; else as long as one call may.
    """
    seconds, faults = seconds or SharedSeconds(EXAMPLE_SECONDS), list[Fault]()
    for number, example in enumerate(definition.examples, start=1):
        example_faults = _check_example(definition, example, number, seconds)
        if seconds.is_over:
            advice = f"Up to example {number}, the examples take more than {EXAMPLE_SECONDS:g} seconds together. Send "
            return [*faults, Fault(f"{definition.name}: {advice}fewer, or shorter ones.", _line(definition, 1))]
        faults += example_faults
    return faults


def _check_sizes(definition: ToolDefinition) -> list[Fault]:
    if len(json.dumps(definition.content(), default=str)) > MAX_CHARS:
        return [Fault(f"{definition.name} is larger than {MAX_CHARS:,} characters.")]
    if len(definition.examples) > MAX_EXAMPLES:
        return [Fault(f"{definition.name} has more than {MAX_EXAMPLES} examples.")]
    try:
        to_json_value(definition.content(), chars=10 * MAX_CHARS)
        read_limits(definition.limits)
    except NotJson as error:
        return [Fault(f"{definition.name} cannot be stored: {error}.")]
    except InvalidDefinition as error:
        return list(error.faults)
    return []


def find_type_faults(definition: ToolDefinition, known: Mapping[str, Mapping[str, Any]]) -> list[Fault]:
    """Let the interpreter's type checker read the source, with what it may call."""
    if not _defines(definition):
        return [Fault(f"The source does not define a function {definition.name}.")]
    if definition.runtime == ToolRuntime.PYTHON:
        # The type checker knows only the interpreter's part of the standard library.
        return []
    stubs = ["from typing import Any, Literal", *(write_stub(name, known[name]) for name in definition.uses)]
    try:
        with get_pool().checkout(
            type_check=True,
            type_check_stubs="\n".join(stubs),
            type_check_format="jsonlines",
            limits={"max_feed_duration_secs": CHECK_SECONDS, "max_memory": MOST.memory_bytes},
        ) as session:
            session.feed_run(definition.source)
    except TimeoutError as error:
        raise SandboxError(BUSY) from error
    except MontyTypingError as error:
        return [_read_diagnostic(line, definition) for line in error.display().split("\n") if line.startswith("{")]
    except MontySyntaxError as error:
        line = next((frame.line for frame in error.traceback()), 1)
        return [Fault(f"{definition.name}: {error.display('msg')}.", _line(definition, line))]
    except MontyError as error:
        return [Fault(f"{definition.name} cannot be loaded: {str(error)[:500]}", _line(definition, 1))]
    return []


def _check_parts(definition: ToolDefinition) -> list[Fault]:
    is_http = definition.runtime == ToolRuntime.HTTP
    if is_http and definition.source:
        return [Fault(f"{definition.name} is a request, so it has no source.")]
    if not is_http and definition.request:
        return [Fault(f"{definition.name} is a function, so it has no request. Requests have the runtime http.")]
    if not is_http and not definition.source:
        return [Fault(f"{definition.name} has no source.")]
    return []


def _defines(definition: ToolDefinition) -> bool:
    try:
        body = ast.parse(definition.source).body
    except (SyntaxError, RecursionError, MemoryError):
        return True  # the interpreter says what is wrong
    return any(isinstance(node, ast.FunctionDef) and node.name == definition.name for node in body)


def _read_diagnostic(line: str, definition: ToolDefinition) -> Fault:
    diagnostic = json.loads(line)
    message = diagnostic["message"].replace("`", "")
    return Fault(f"{definition.name}: {message}.", _line(definition, diagnostic["location"]["row"]))


def write_stub(name: str, schema: Mapping[str, Any]) -> str:
    """Return the signature of a host function, for the type checker."""
    schema = modernize(dict(schema))
    properties, required = schema.get("properties", {}), schema.get("required", [])
    is_open = not properties and schema.get("additionalProperties") is not False
    if is_open or not all(
        property_name.isidentifier() and not iskeyword(property_name) for property_name in properties
    ):
        # A signature cannot name these arguments, so it takes any.
        return f"def {name}(*values: Any, **named: Any) -> Any: ..."
    ordered = sorted(properties, key=lambda property_name: property_name not in required)
    written = [
        f"{property_name}: {_write_type(properties[property_name])}" + ("" if property_name in required else " = ...")
        for property_name in ordered
    ]
    return f"def {name}({', '.join(written)}) -> Any: ..."


def _write_type(schema: Any) -> str:
    """Return a type that accepts all that fits a schema, and more where Python cannot express it."""
    if not isinstance(schema, dict):
        return "Any"
    if "anyOf" in schema:
        return " | ".join(_write_type(option) for option in schema["anyOf"])
    values = schema.get("enum", [])
    if values and all(value is None or isinstance(value, str | int) for value in values):
        return f"Literal[{', '.join(map(repr, values))}]"
    kinds = schema.get("type", [])
    if kinds == "array" and "items" in schema:
        return f"list[{_write_type(schema['items'])}]"
    return " | ".join(_PYTHON_TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)) or "Any"


def _check_example(definition: ToolDefinition, example: Example, number: int, seconds: SharedSeconds) -> list[Fault]:
    name = f"Example {number} of {definition.name}"
    line = _line(definition, 1)
    try:
        check_arguments(definition.parameters, example.arguments)
    except InvalidArguments as error:
        return [Fault(f"{name}: {error}", line)]

    def answer(function: str) -> Any:
        def given(*args: Any, **kwargs: Any) -> Any:
            if function not in example.host:
                raise HostError(f"the example does not say what {function} answers")
            return example.host[function]

        return given

    call = SandboxCall(
        source=definition.source,
        function=definition.name,
        arguments=example.arguments,
        frozen_at=FROZEN_AT,
        seed="example",
        limits=seconds.limit(read_limits(definition.limits)),
        runtime=definition.runtime,
    )
    outcome = run_tool(call, {function: answer(function) for function in definition.uses})
    seconds.spend(outcome)
    if outcome.fault is not None:
        at = outcome.fault.line
        return [Fault(f"{name} fails: {outcome.fault.kind}: {outcome.fault.message}.", _line(definition, at or 1))]
    # As the value comes out of the sandbox, where a tuple is a list.
    if outcome.value != to_json_value(example.answer, chars=MAX_CHARS):
        return [Fault(f"{name} answers {outcome.value!r:.300}, and not {example.answer!r:.300}.", line)]
    return []


def _line(definition: ToolDefinition, line: int) -> int | None:
    """Return the line of the file for a line of the source."""
    return definition.lines[line - 1] if 0 < line <= len(definition.lines) else (line if not definition.lines else None)
