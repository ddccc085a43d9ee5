"""What this host offers to keep tools apart from it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec

from runtime.sandbox.calls import SandboxCall, SandboxError, SandboxLimits, SandboxStatus
from runtime.sandbox.running import run_tool

TRY_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A sandbox, and why this host does not have it; `todo` says what to do about that."""

    name: str
    why_not: str = ""
    todo: str = ""

    @property
    def works(self) -> bool:
        return not self.why_not


def try_monty() -> Offer:
    """Run a tool in the interpreter."""
    return Offer(name="monty", why_not=_try("monty"), todo="Run uv sync, and see docs/sandbox.md.")


@cache
def find_sandlock() -> Offer:
    """Look for sandlock and a kernel that it can use, and run a tool of the runtime python in it."""
    if find_spec("sandlock") is None:
        return Offer(name="sandlock", why_not="sandlock is not installed.", todo="Run uv sync --group sandlock.")
    import sandlock

    has, needs = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
    if has < needs:
        return Offer(
            name="sandlock", why_not=f"The kernel has Landlock {has}, and {needs} is needed.", todo="Update it."
        )
    todo = "Allow Landlock and seccomp's user notification on this host, or in its container."
    return Offer(name="sandlock", why_not=_try("python"), todo=todo)


def _try(runtime: str) -> str:
    """Run a tool; return why that fails, or nothing."""
    call = SandboxCall(
        source="def tool() -> int:\n    return 1\n",
        function="tool",
        arguments={},
        frozen_at=datetime.now(UTC),
        seed="",
        limits=SandboxLimits(seconds=TRY_SECONDS),
        runtime=runtime,
    )
    try:
        outcome = run_tool(call, {})
    except SandboxError as error:
        return str(error)
    return "" if outcome.status == SandboxStatus.RETURNED else str(outcome.fault)
