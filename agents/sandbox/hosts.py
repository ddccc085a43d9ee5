"""What this host offers to keep tools apart from it."""

import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec

from agents.sandbox.calls import SandboxError, Status, ToolCall
from agents.sandbox.monty import run_tool

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
    call = ToolCall(
        source="def tool() -> int:\n    return 1\n",
        function="tool",
        arguments={},
        frozen_at=datetime.now(UTC),
        seed="",
    )
    try:
        outcome = run_tool(call, {})
    except SandboxError as error:
        return Offer(name="monty", why_not=str(error), todo="Run uv sync, and see docs/sandbox.md.")
    if outcome.status != Status.RETURNED:
        return Offer(name="monty", why_not=str(outcome.fault), todo="See docs/sandbox.md.")
    return Offer(name="monty")


@cache
def find_bubblewrap() -> Offer:
    """Look for bubblewrap, and try whether this host lets it make namespaces."""
    program = shutil.which("bwrap")
    if program is None:
        return Offer(name="bubblewrap", why_not="bwrap is not installed.", todo="Install the package bubblewrap.")
    command = [program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "true"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TRY_SECONDS, check=False, env={})
    except (OSError, subprocess.TimeoutExpired) as error:
        return Offer(name="bubblewrap", why_not=f"bwrap does not start ({type(error).__name__}).", todo="Reinstall it.")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:200]
        todo = "Allow user namespaces on this host, or in its container."
        return Offer(name="bubblewrap", why_not=f"This host does not let it make namespaces ({said}).", todo=todo)
    return Offer(name="bubblewrap")


@cache
def find_sandlock() -> Offer:
    """Look for sandlock, and for a kernel that it can use."""
    if find_spec("sandlock") is None:
        return Offer(name="sandlock", why_not="sandlock is not installed.", todo="Run uv sync --group sandlock.")
    import sandlock

    has, needs = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
    if has < needs:
        return Offer(
            name="sandlock", why_not=f"The kernel has Landlock {has}, and {needs} is needed.", todo="Update it."
        )
    return Offer(name="sandlock")
