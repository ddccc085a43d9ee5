"""Give an agent the lessons of its earlier runs, and record how each run went.

from erl_client import ERL

erl = ERL()  # reads ERL_URL and ERL_API_KEY
with erl.run(task, family="airline") as run:
    answer = agent(system + run.context)
    run.messages(messages)
    run.success(score=1.0, source="test")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from erl_client.api import ERLError, Refused, Unavailable
    from erl_client.client import ERL, AsyncERL
    from erl_client.runs import Run, current_run

__all__ = ["ERL", "AsyncERL", "ERLError", "Refused", "Run", "Unavailable", "current_run"]
_MODULES = {
    **dict.fromkeys(("ERLError", "Refused", "Unavailable"), "erl_client.api"),
    **dict.fromkeys(("ERL", "AsyncERL"), "erl_client.client"),
    **dict.fromkeys(("Run", "current_run"), "erl_client.runs"),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: a hook of a coding agent, which has little time, asks for nothing of this."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
