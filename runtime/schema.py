"""JSON schemas: made from a signature, checked before they are stored, and what calls and replies have to fit.

Schemas and what is checked against them come from strangers. Nothing is fetched, patterns are matched by an engine that
does not backtrack, and the steps of a check are counted.
"""

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema
from pydantic_core import ValidationError as Mismatch
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from reflection.llm.tool_schemas import ALONE, BY_NAME, LISTED, MAX_SCHEMA_DEPTH, Schema, modernize
from runtime.errors import Fault, InvalidArguments, InvalidDefinition

MAX_SCHEMA_CHARS = 50_000
MAX_PATTERN_CHARS = 1_000
MAX_CHECK_STEPS = 100_000  # some seconds
MAX_FAULTS = 10
MAX_FAULT_CHARS = 500
FORMATS = FormatChecker(("date", "email", "ipv4", "ipv6", "uuid"))  # others only describe
_SIMPLE = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
_WORDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
TYPES_OFFERED = "str, int, float, bool, list[…], dict[str, …], Literal[…], Optional[…] and Any"


def read_schema(function: ast.FunctionDef, words: Mapping[str, str]) -> Schema:
    """Return the schema of the arguments of a function.

    Args:
        words: what the docstring says about each parameter.

    Raises:
        InvalidDefinition: a parameter has no type, or one that JSON has no word for.
    """
    faults: list[Fault] = []
    given = function.args
    if given.vararg or given.kwarg or given.posonlyargs:
        faults.append(
            Fault(
                f"{function.name} takes *args, **kwargs or positional-only arguments. Name each one.", function.lineno
            )
        )
    parameters = [*given.args, *given.kwonlyargs]
    # Positional defaults belong to the last parameters; keyword-only parameters without one have a None.
    defaults = [None] * (len(given.args) - len(given.defaults)) + [*given.defaults] + [*given.kw_defaults]
    properties: Schema = {}
    required = []
    for parameter, default in zip(parameters, defaults, strict=True):
        try:
            properties[parameter.arg] = _read_parameter(parameter, default)
        except InvalidDefinition as error:
            faults += error.faults
            continue
        if parameter.arg in words:
            properties[parameter.arg]["description"] = words[parameter.arg]
        if default is None:
            required.append(parameter.arg)
    if faults:
        raise InvalidDefinition(faults)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _read_parameter(parameter: ast.arg, default: ast.expr | None) -> Schema:
    if parameter.annotation is None:
        raise _fault(f"{parameter.arg} has no type. The types are {TYPES_OFFERED}.", parameter)
    schema = read_type(parameter.annotation)
    if default is None:
        return schema
    try:
        value = ast.literal_eval(default)
    except ValueError:
        raise _fault(f"The default of {parameter.arg} has to be a literal.", default) from None
    if faults := find_value_faults({"properties": {parameter.arg: schema}}, {parameter.arg: value}):
        raise _fault(f"The default does not have the declared type: {faults[0]}", default)
    return schema | {"default": value}


def read_type(node: ast.expr) -> Schema:
    """Return the schema of a type as it is written in a signature, or raise InvalidDefinition."""
    if isinstance(node, ast.Constant) and isinstance(written := node.value, str):
        try:
            node = ast.parse(written, mode="eval").body
        except SyntaxError:
            raise _fault(f"{written!r} is not a type.", node) from None
    if isinstance(node, ast.Constant) and node.value is None:
        return {"type": "null"}
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in ("Any", "object"):
            return {}
        if name in _SIMPLE:
            return {"type": _SIMPLE[name]}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return {"anyOf": [option for side in (node.left, node.right) for option in _options(read_type(side))]}
    if isinstance(node, ast.Subscript):
        return _read_subscript(node)
    raise _fault(f"The type {ast.unparse(node)} cannot be expressed in JSON. The types are {TYPES_OFFERED}.", node)


def _read_subscript(node: ast.Subscript) -> Schema:
    outer = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer in ("list", "List", "Sequence") and len(inner) == 1:
        return {"type": "array", "items": read_type(inner[0])}
    if outer in ("dict", "Dict", "Mapping") and len(inner) == 2:
        if read_type(inner[0]) != {"type": "string"}:
            raise _fault("JSON objects have string keys: write dict[str, …].", node)
        return {"type": "object", "additionalProperties": read_type(inner[1])}
    if outer == "Optional" and len(inner) == 1:
        return {"anyOf": [*_options(read_type(inner[0])), {"type": "null"}]}
    if outer == "Union":
        return {"anyOf": [option for part in inner for option in _options(read_type(part))]}
    if outer == "Literal":
        values = [ast.literal_eval(part) for part in inner if isinstance(part, ast.Constant | ast.UnaryOp)]
        if len(values) != len(inner) or not all(isinstance(value, str | int | bool | None) for value in values):
            raise _fault("Literal may hold strings, whole numbers, True, False and None.", node)
        return {"enum": values}
    raise _fault(f"The type {ast.unparse(node)} cannot be expressed in JSON. The types are {TYPES_OFFERED}.", node)


def _options(schema: Schema) -> list[Schema]:
    return list(schema["anyOf"]) if "anyOf" in schema else [schema]


def find_schema_faults(schema: Any) -> list[str]:
    """Return what is wrong with a schema that was sent, as sentences. It is JSON Schema, of an older draft too."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return ['The parameters must be an object: {"type": "object", "properties": {…}, "required": […]}.']
    published, schema = schema, modernize(schema)
    nodes = list(_walk(schema, ("parameters",)))
    if any(len(path) > MAX_SCHEMA_DEPTH for path, _ in nodes):
        return [f"The schema is nested more than {MAX_SCHEMA_DEPTH} levels deep."]
    if len(json.dumps(published)) > MAX_SCHEMA_CHARS:
        return [f"The schema is longer than {MAX_SCHEMA_CHARS:,} characters."]
    # What a reference may lead to: a `default` is no schema, and has not been looked at.
    targets = [id(node) for _, node in nodes]
    # With an empty registry, a reference to the outside cannot be resolved and nothing is fetched.
    resolver = Registry[Any]().resolver_with_root(DRAFT202012.create_resource(schema))
    faults = []
    for path, node in nodes:
        written = "/".join(path)
        faults += [f"{written}: {fault}" for fault in _find_node_faults(node, resolver, targets)]
        if "$id" in node and node is not schema:
            faults.append(f"{written}: $id may only stand at the top of a schema.")
    if not faults and (error := best_match(_META_SCHEMA.iter_errors(schema))):
        faults = [f"{'/'.join(map(str, ['parameters', *error.absolute_path]))}: {error.message[:MAX_FAULT_CHARS]}."]
    return faults[:MAX_FAULTS]


def _walk(schema: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yield a schema and those in it, each with its place; none below the first that is too deep."""
    if not isinstance(schema, dict):
        return  # true and false are schemas, too
    yield place, schema
    if len(place) > MAX_SCHEMA_DEPTH:
        return
    for word, value in schema.items():
        if word in BY_NAME and isinstance(value, dict):
            for name, inner in value.items():
                yield from _walk(inner, (*place, f"{word}/{name}"))
        elif word in LISTED and isinstance(value, list):
            for index, inner in enumerate(value):
                yield from _walk(inner, (*place, f"{word}/{index}"))
        elif word in ALONE:
            yield from _walk(value, (*place, word))


def _find_node_faults(node: Schema, resolver: Any, targets: Sequence[int]) -> Iterator[str]:
    patterns = node.get("patternProperties")
    for pattern in [node.get("pattern"), *(patterns if isinstance(patterns, dict) else ())]:
        if isinstance(pattern, str) and (fault := _find_pattern_fault(pattern)):
            yield fault
    for word in ("$ref", "$dynamicRef"):
        reference = node.get(word)
        if not isinstance(reference, str):
            continue
        try:
            target = resolver.lookup(reference).contents
            leads_to_schema = isinstance(target, bool) or id(target) in targets
        except Unresolvable:
            leads_to_schema = False
        if not leads_to_schema or not reference.startswith("#"):
            yield f"{word} has to name a schema within this one, such as #/$defs/address, not {reference[:200]!r}."


def _find_pattern_fault(pattern: str) -> str:
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"A pattern may have at most {MAX_PATTERN_CHARS:,} characters."
    try:
        _matcher(pattern)
    except SchemaError:
        return (
            f"The pattern {pattern[:100]!r} cannot be used. Patterns are regular expressions without look-around and "
            "back-references."
        )
    return ""


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> SchemaValidator:
    """Return an automaton that finds a pattern in time that is linear in the length of the text."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _matches(pattern: str, text: str) -> bool:
    try:
        _matcher(pattern).validate_python(text)
    except Mismatch:
        return False
    return True


class _TooManySteps(Exception):
    """A check takes too long, as with references that branch again and again."""


# The library calls keywords without any state of ours, so the count is kept in the context.
_steps_left: ContextVar[int] = ContextVar("_steps_left")
Check = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


def _counted(word: str, check: Check) -> Check:
    """Let a keyword count what its check costs."""

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError] | None:
        # A check costs about as much as what it looks at is long.
        sizes = [len(item) if isinstance(item, list | dict) else 1 for item in (value, instance)]
        left = _steps_left.get() - sum(sizes)
        if word == "uniqueItems" and isinstance(instance, list) and not all(isinstance(item, str) for item in instance):
            # What cannot be sorted is compared pair by pair, though each comparison is quick.
            left -= sizes[1] ** 2 // 20
        if left < 0:
            raise _TooManySteps
        _steps_left.set(left)
        return check(validator, value, instance, schema)

    return counted


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError("does not match")


_checks = Draft202012Validator.VALIDATORS | {"pattern": _check_pattern}
_Checker = extend(Draft202012Validator, {word: _counted(word, check) for word, check in _checks.items()})
_META_SCHEMA = Draft202012Validator(Draft202012Validator.META_SCHEMA)


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise InvalidArguments where arguments do not fit a schema.

    A schema that names arguments and says nothing about others takes no others.
    """
    if schema.get("properties") and not schema.keys() & {"additionalProperties", "unevaluatedProperties"}:
        schema = {**schema, "unevaluatedProperties": False}
    if faults := find_value_faults(schema, arguments):
        raise InvalidArguments(" ".join(faults))


def bind_arguments(schema: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of a host function by name, checked, or raise InvalidArguments."""
    names = list(schema.get("properties", {}))
    if len(args) > len(names):
        raise InvalidArguments(f"The call has {len(args)} arguments, but there are only {len(names)}.")
    bound = dict(zip(names, args, strict=False))
    if twice := sorted(bound.keys() & kwargs.keys()):
        raise InvalidArguments(f"{twice[0]} was given twice.")
    bound |= kwargs
    check_arguments(schema, bound)
    return bound


def find_value_faults(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return why a value does not fit a schema, as sentences."""
    token = _steps_left.set(MAX_CHECK_STEPS)
    try:
        checker = _Checker(_spell_out(schema, value), registry=Registry(), format_checker=FORMATS)
        faults = [_describe_fault(error)[:MAX_FAULT_CHARS] for error in checker.iter_errors(value)]
    except (_TooManySteps, RecursionError):
        return ["The arguments are too long or too deeply nested to be checked against the schema. Send less."]
    finally:
        _steps_left.reset(token)
    return list(dict.fromkeys(faults))[:MAX_FAULTS]


def _spell_out(schema: Mapping[str, Any], value: Any) -> Schema:
    """Return a schema with the names that fit a pattern written out: the library would match by backtracking."""
    spelled: Schema = deepcopy(modernize(dict(schema)))
    nodes = [node for _, node in _walk(spelled, ())]
    names = _names_in(value) if any("patternProperties" in node for node in nodes) else set()
    for node in nodes:
        for pattern, inner in node.pop("patternProperties", {}).items():
            properties = node.setdefault("properties", {})
            for name in names:
                if _matches(pattern, name):
                    properties[name] = {"allOf": [properties[name], inner]} if name in properties else inner
    return spelled


def _names_in(value: Any) -> set[str]:
    """Return the names of all members of a value."""
    names, waiting = set[str](), [value]
    while waiting:
        match waiting.pop():
            case dict() as members:
                names |= members.keys()
                waiting += members.values()
            case list() as items:
                waiting += items
    return names


def _describe_fault(error: ValidationError) -> str:
    """Say what a value should be, and where it is."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    path = path.removeprefix(".")[:200] or "The call"
    wanted: Any = error.validator_value
    prefix = "" if not error.absolute_path else f"{path}."
    match error.validator:
        case "required":
            missing = [name for name in wanted if name not in error.instance]
            return " ".join(f"{prefix}{name} is missing." for name in missing)
        case "additionalProperties" | "unevaluatedProperties" if wanted is False:
            properties = list(error.schema.get("properties", {}))
            # The library tells which ones only in its message.
            unknown = [name for name in error.instance if repr(name) in error.message]
            offer = f"The arguments are {', '.join(properties)}." if properties else "None are allowed."
            return " ".join([*(f"{prefix}{name} is unknown." for name in unknown), offer])
        case "type" | "enum" | "const":
            return f"{path} should be {_describe(error.schema)}."
        case "anyOf" | "oneOf" if error.context:
            nearest = max(error.context, key=lambda inner: len(inner.absolute_path))
            # Of one that fits in part, what does not
            more = f" {_describe_fault(nearest)}" if len(nearest.absolute_path) > len(error.absolute_path) else ""
            return f"{path} should be {' or '.join(dict.fromkeys(map(_describe, wanted)))}.{more}"
        case None:
            return f"{path} is not allowed."
    return f"{path} does not fit {error.validator}: {json.dumps(wanted, ensure_ascii=False)[:200]}."


def _describe(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "anything"
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"{'one of ' if 'enum' in schema else ''}{', '.join(map(repr, values))}"
    kinds = schema.get("type", [])
    return " or ".join(_WORDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)) or "something else"


def _fault(message: str, node: ast.AST) -> InvalidDefinition:
    return InvalidDefinition([Fault(message, getattr(node, "lineno", None))])
