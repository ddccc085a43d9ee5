"""Give an agent the lessons of its earlier runs, and record how each run went.

from erl_client import ERL

erl = ERL()  # reads ERL_URL and ERL_API_KEY
with erl.run(task, family="airline") as run:
    answer = agent(system + run.context)
    run.messages(messages)
    run.success(score=1.0, source="test")
"""

from erl_client.api import ERLError, Refused, Unavailable
from erl_client.client import ERL, AsyncERL
from erl_client.runs import Run, current_run

__all__ = ["ERL", "AsyncERL", "ERLError", "Refused", "Run", "Unavailable", "current_run"]
