"""Run a tool in the sandbox of its runtime."""

from collections.abc import Sequence

from runtime.sandbox.answers import Host
from runtime.sandbox.calls import SandboxAnswer, SandboxCall, ToolOutcome
from runtime.sandbox.cpython import run_in_cpython
from runtime.sandbox.monty import run_in_monty


def run_tool(call: SandboxCall, host: Host, *, journal: Sequence[SandboxAnswer] = ()) -> ToolOutcome:
    """Call a function of a source in the sandbox.

    Args:
        host: the functions that the source may call; any other name is unknown to it.
        journal: answers of an earlier attempt. They are served again in their order and the host is not asked, as long
            as the tool makes the same calls; with the same clock and seed it does.

    Raises:
        SandboxError: the sandbox is not available, or crashed.
        Exception: what a host function raised, apart from HostError and Suspend.
    """
    run = run_in_cpython if call.runtime == "python" else run_in_monty
    return run(call, host, journal=journal)
