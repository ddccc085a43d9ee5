"""Conditions on the arguments of a call, such as `args.total > 100 and args.currency != "EUR"`.

A condition is a Python expression of comparisons, `and`, `or`, `not` and `in`, over `args`, its members and constants.
It is read, never run as code.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

MAX_CHARACTERS = 1_000
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


class InvalidCondition(ValueError):
    """A condition cannot be read; the message says why."""


def check_condition(text: str) -> None:
    """Raise `InvalidCondition` where a text is no condition."""
    _parse(text)


def holds(text: str, arguments: Mapping[str, Any] | None) -> bool:
    """Tell whether a condition holds for the arguments of a call.

    Where that cannot be told, because an argument is missing or of another type, it holds: the call is then asked
    about.
    """
    if arguments is None:
        return True
    try:
        return bool(_evaluate(_parse(text), arguments))
    except (InvalidCondition, LookupError, TypeError, ValueError, RecursionError):
        return True


@lru_cache(maxsize=256)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_CHARACTERS:
        raise InvalidCondition(f"A condition has at most {MAX_CHARACTERS} characters.")
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    # Text that is nested too deeply ends in a RecursionError or a MemoryError, a NUL character in a ValueError.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InvalidCondition("This is no condition. Write one such as args.total > 100.") from error
    _check(parsed)
    return parsed


def _check(node: ast.expr) -> None:
    match node:
        case ast.BoolOp(values=values):
            parts: list[ast.expr] = values
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            parts = [operand]
        case ast.Compare(left=left, ops=ops, comparators=others):
            if unknown := [type(op).__name__ for op in ops if type(op) not in _COMPARE]:
                raise InvalidCondition(f"A condition cannot use {unknown[0]}.")
            parts = [left, *others]
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            parts = elements
        case ast.Constant(value=str() | int() | float() | None):
            parts = []
        case ast.Name(id="args"):
            parts = []
        case ast.Attribute(value=value):
            parts = [value]
        case ast.Subscript(value=value, slice=index):
            parts = [value, index]
        case _:
            raise InvalidCondition(f"A condition cannot use {type(node).__name__}; it reads args and constants.")
    for part in parts:
        _check(part)


def _evaluate(node: ast.expr, arguments: Mapping[str, Any]) -> Any:
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_evaluate(value, arguments) for value in values)
        case ast.BoolOp(values=values):
            return any(_evaluate(value, arguments) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, arguments)
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, arguments)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compare(left, ops, others, arguments)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return [_evaluate(element, arguments) for element in elements]
        case ast.Constant(value=value):
            return value
        case ast.Attribute(value=value, attr=name):
            return _get(_evaluate(value, arguments), name)
        case ast.Subscript(value=value, slice=index):
            return _get(_evaluate(value, arguments), _evaluate(index, arguments))
    return arguments


def _compare(left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr], arguments: Mapping[str, Any]) -> bool:
    value = _evaluate(left, arguments)
    for op, other in zip(ops, others, strict=True):
        compared = _evaluate(other, arguments)
        # To Python, True is 1. Here it is another type, and a person is asked.
        if isinstance(value, bool) != isinstance(compared, bool) and type(op) not in (ast.In, ast.NotIn):
            raise TypeError("True is no number here.")
        if _are_unlike(value, compared) and isinstance(op, ast.Eq | ast.NotEq):
            raise TypeError("Values of two types are neither equal nor different here.")
        if not _COMPARE[type(op)](value, compared):
            return False
        value = compared
    return True


def _are_unlike(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    return isinstance(one, str) != isinstance(other, str)


def _get(value: Any, name: Any) -> Any:
    if isinstance(value, Mapping):
        return value[name]
    if isinstance(value, list) and isinstance(name, int):
        return value[name]
    raise LookupError(name)
