"""Which limit ended a run, as agents and benchmarks write it into the run's metadata."""

import re
from collections.abc import Mapping
from typing import Any

_MEMBERS = ("exit_status", "stop_reason", "finish_reason", "termination_reason", "terminated_by", "status", "truncated")
_LIMITS = {
    "steps": re.compile(
        r"max[_ ]?(?:steps|turns|iterations)|(?:step|turn|iteration)s?[_ ]limit|recursion", re.IGNORECASE
    ),
    "tokens": re.compile(r"context|max[_ ]?tokens|length|token", re.IGNORECASE),
    "cost": re.compile(r"cost|budget", re.IGNORECASE),
    "time": re.compile(r"time[_ ]?out|timed?[_ ]?limit|deadline", re.IGNORECASE),
}


def limit_reached(metadata: Mapping[str, Any]) -> str:
    """Return "steps", "tokens", "cost", "time" or "a limit", or "" if the metadata name none."""
    if metadata.get("truncated") is True:
        return "a limit"
    for member in _MEMBERS:
        value = metadata.get(member)
        if isinstance(value, str):
            for limit, pattern in _LIMITS.items():
                if pattern.search(value):
                    return limit
    return ""
