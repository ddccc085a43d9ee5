"""Calls of tools, for the tests of the sandbox."""

from datetime import UTC, datetime
from textwrap import dedent
from typing import Any

from runtime.sandbox import SandboxCall, SandboxLimits

FROZEN_AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def make_call(
    source: str,
    function: str = "tool",
    *,
    limits: SandboxLimits | None = None,
    runtime: str = "monty",
    **arguments: Any,
) -> SandboxCall:
    """Return a call of a function of a source."""
    return SandboxCall(
        source=dedent(source).strip() + "\n",
        function=function,
        arguments=arguments,
        frozen_at=FROZEN_AT,
        seed="effect-1",
        limits=limits or SandboxLimits(seconds=0.5),
        runtime=runtime,
    )
