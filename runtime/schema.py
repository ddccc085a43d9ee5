"""The JSON schema of a tool's arguments: made from a signature, checked against a call."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.errors import Fault, InvalidArguments, InvalidDefinition

Schema = dict[str, Any]
MAX_PARAMETERS = 50
MAX_SCHEMA_DEPTH = 8
_SIMPLE = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_KEYWORDS = {
    "type",
    "description",
    "enum",
    "items",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
    "default",
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
        raise _fault(f"The default of {parameter.arg} has to be written out.", default) from None
    if said := find_value_fault(schema, value, parameter.arg):
        raise _fault(f"The default does not have the type: {said}", default)
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
    raise _fault(f"The type {ast.unparse(node)} cannot be written as JSON. The types are {TYPES_OFFERED}.", node)


def _read_subscript(node: ast.Subscript) -> Schema:
    outer = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer in ("list", "List", "Sequence") and len(inner) == 1:
        return {"type": "array", "items": read_type(inner[0])}
    if outer in ("dict", "Dict", "Mapping") and len(inner) == 2:
        if read_type(inner[0]) != {"type": "string"}:
            raise _fault("The keys of a dict are texts in JSON: write dict[str, …].", node)
        return {"type": "object", "additionalProperties": read_type(inner[1])}
    if outer == "Optional" and len(inner) == 1:
        return {"anyOf": [*_options(read_type(inner[0])), {"type": "null"}]}
    if outer == "Union":
        return {"anyOf": [option for each in inner for option in _options(read_type(each))]}
    if outer == "Literal":
        values = [ast.literal_eval(each) for each in inner if isinstance(each, ast.Constant | ast.UnaryOp)]
        if len(values) != len(inner) or not all(isinstance(value, str | int | bool | None) for value in values):
            raise _fault("Literal holds texts, whole numbers, True, False and None.", node)
        return {"enum": values}
    raise _fault(f"The type {ast.unparse(node)} cannot be written as JSON. The types are {TYPES_OFFERED}.", node)


def _options(schema: Schema) -> list[Schema]:
    return list(schema["anyOf"]) if "anyOf" in schema else [schema]


def find_schema_faults(schema: Any) -> list[str]:
    """Return what is wrong with a schema that was sent, as sentences. It has the keywords that `read_schema` writes."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        return ['The parameters are an object: {"type": "object", "properties": {…}, "required": […]}.']
    if len(schema["properties"]) > MAX_PARAMETERS:
        return [f"A tool has at most {MAX_PARAMETERS} parameters."]
    return _find_node_faults(schema, "parameters", 0)


def _find_node_faults(schema: Any, place: str, depth: int) -> list[str]:
    if not isinstance(schema, dict):
        return [f"{place}: This should be an object."]
    if depth > MAX_SCHEMA_DEPTH:
        return [f"{place}: It is nested more than {MAX_SCHEMA_DEPTH} levels deep."]
    faults = [f"{place}: The keyword {word!r} is not offered." for word in sorted(set(schema) - _KEYWORDS)]
    if "type" in schema and (not isinstance(schema["type"], str) or schema["type"] not in _TYPES):
        faults.append(f"{place}: The types are {', '.join(_TYPES)}.")
    if not isinstance(schema.get("enum", []), list) or not isinstance(schema.get("anyOf", []), list):
        return [*faults, f"{place}: enum and anyOf are lists."]
    if not isinstance(schema.get("properties", {}), dict):
        return [*faults, f"{place}: properties is an object."]
    named = schema.get("required", [])
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        return [*faults, f"{place}: required is a list of names."]
    faults += [
        f"{place}: required names {name!r}, which is no property."
        for name in named
        if name not in schema.get("properties", {})
    ]
    inner = [(f"{place}/{name}", each) for name, each in schema.get("properties", {}).items()]
    inner += [(f"{place}/anyOf", each) for each in schema.get("anyOf", [])]
    inner += [(f"{place}/items", schema["items"])] if "items" in schema else []
    if not isinstance(schema.get("additionalProperties", False), bool):
        inner.append((f"{place}/additionalProperties", schema["additionalProperties"]))
    return faults + [fault for at, each in inner for fault in _find_node_faults(each, at, depth + 1)]


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise InvalidArguments where arguments do not fit a schema."""
    if faults := _find_object_faults(schema, arguments, ""):
        raise InvalidArguments(" ".join(faults))


def bind_arguments(schema: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of a host function by name, checked, or raise InvalidArguments."""
    names = list(schema.get("properties", {}))
    if len(args) > len(names):
        raise InvalidArguments(f"{len(args)} arguments were given and there are {len(names)}.")
    bound = dict(zip(names, args, strict=False))
    if twice := sorted(bound.keys() & kwargs.keys()):
        raise InvalidArguments(f"{twice[0]} was given twice.")
    bound |= kwargs
    check_arguments(schema, bound)
    return bound


def find_value_fault(schema: Mapping[str, Any], value: Any, place: str) -> str:
    """Return why a value does not fit a schema, as a sentence, or ""."""
    if "anyOf" in schema:
        if any(not find_value_fault(option, value, place) for option in schema["anyOf"]):
            return ""
        return f"{place} should be {' or '.join(_describe(option) for option in schema['anyOf'])}."
    if "enum" in schema and not any(value == one and type(value) is type(one) for one in schema["enum"]):
        return f"{place} should be one of {', '.join(map(repr, schema['enum']))}."
    kind = schema.get("type")
    if kind is None:
        return ""
    is_whole_float = kind == "integer" and isinstance(value, float) and value.is_integer()
    is_bool = isinstance(value, bool) and kind != "boolean"
    if (not isinstance(value, _TYPES[kind]) or is_bool) and not is_whole_float:
        return f"{place} should be {_WORDS[kind]}."
    if kind == "array" and "items" in schema:
        return next(
            filter(None, (find_value_fault(schema["items"], one, f"{place}[{i}]") for i, one in enumerate(value))), ""
        )
    if kind == "object":
        return next(iter(_find_object_faults(schema, value, f"{place}.")), "")
    return ""


def _find_object_faults(schema: Mapping[str, Any], value: Mapping[str, Any], prefix: str) -> list[str]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", not properties)
    faults = [f"{prefix}{name} is missing." for name in schema.get("required", []) if name not in value]
    for name, one in value.items():
        if name in properties:
            faults.append(find_value_fault(properties[name], one, f"{prefix}{name}"))
        elif others is False:
            known = f"The arguments are {', '.join(properties)}." if properties else "There are none."
            faults.append(f"{prefix}{name} is unknown. {known}")
        elif isinstance(others, dict):
            faults.append(find_value_fault(others, one, f"{prefix}{name}"))
    return [fault for fault in faults if fault]


def _describe(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(map(repr, schema['enum']))}"
    return _WORDS.get(schema.get("type", ""), "anything")


def _fault(message: str, node: ast.AST) -> InvalidDefinition:
    return InvalidDefinition([Fault(message, getattr(node, "lineno", None))])
