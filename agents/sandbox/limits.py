"""The limits of a tool as they are stored, and the most that it can be given."""

from collections.abc import Mapping
from typing import Any

from agents.errors import Fault, InvalidDefinition
from agents.sandbox.calls import Limits

MOST = Limits(seconds=10.0, memory_bytes=256 * 1024 * 1024, output_chars=200_000, recursion=1_000, host_calls=1_000)


def read_limits(stored: Mapping[str, Any]) -> Limits:
    """Return the limits of a tool, with the defaults for those it does not set, or raise InvalidDefinition."""
    for name, value in stored.items():
        most = getattr(MOST, name, None) if name in Limits.__slots__ else None
        if most is None:
            raise InvalidDefinition(
                [Fault(f"There is no limit {name!r}. The limits are {', '.join(Limits.__slots__)}.", member="limits")]
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= most or (name != "seconds" and not isinstance(value, int)):
            kind = "a number above 0, at most" if name == "seconds" else "a whole number from 1 to"
            raise InvalidDefinition([Fault(f"The limit {name} is {kind} {most:,}.", member="limits")])
    return Limits(**stored)
