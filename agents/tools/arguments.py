"""Whether the arguments of a call fit the schema of its tool."""

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match


def find_argument_fault(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return what is wrong, as a sentence for the agent; "" where the arguments fit."""
    fault = best_match(Draft202012Validator(schema).iter_errors(arguments))
    if fault is None:
        return ""
    place = "/".join(str(part) for part in fault.absolute_path)
    return f"The argument {place} does not fit: {fault.message[:300]}." if place else f"{fault.message[:300]}."
