"""Run the Python of a tool where it can reach nothing but the functions that it is given.

    call = ToolCall(source=…, function="refund_order", arguments={"order_id": "A1"}, frozen_at=now, seed="…")
    outcome = run_tool(call, {"get_order": get_order})

A host function that raises `Suspend` stops the tool there: `outcome.snapshot` goes on in any process with
`resume_tool`. docs/sandbox.md says what a tool may do and what is promised.
"""

from agents.sandbox.calls import Answer, HostCall, HostError, Limits, Status, Suspend, ToolCall, ToolFault, ToolOutcome
from agents.sandbox.monty import resume_tool, run_tool

__all__ = [
    "Answer",
    "HostCall",
    "HostError",
    "Limits",
    "Status",
    "Suspend",
    "ToolCall",
    "ToolFault",
    "ToolOutcome",
    "resume_tool",
    "run_tool",
]
