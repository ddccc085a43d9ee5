"""Run the Python of a tool where it can reach nothing but the functions that it is given.

    call = SandboxCall(source=…, function="refund_order", arguments={"order_id": "A1"}, frozen_at=now, seed="…")
    outcome = run_tool(call, {"get_order": get_order})

A host function that raises `Suspend` stops the tool there: run again with the answers so far as `journal`, in any
process, it comes to the same place. docs/sandbox.md says what a tool may do and what is promised.
"""

from runtime.sandbox.calls import (
    HostCall,
    HostError,
    SandboxAnswer,
    SandboxCall,
    SandboxError,
    SandboxLimits,
    SandboxStatus,
    SharedSeconds,
    Suspend,
    ToolFault,
    ToolOutcome,
    read_limits,
)
from runtime.sandbox.running import run_tool

__all__ = [
    "HostCall",
    "HostError",
    "SandboxAnswer",
    "SandboxCall",
    "SandboxError",
    "SandboxLimits",
    "SandboxStatus",
    "SharedSeconds",
    "Suspend",
    "ToolFault",
    "ToolOutcome",
    "read_limits",
    "run_tool",
]
