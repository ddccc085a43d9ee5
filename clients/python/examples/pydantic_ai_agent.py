"""An agent of pydantic-ai."""

from pydantic_ai import Agent

from erl_client import ERL  # glue
from erl_client.pydantic_ai import ERLCapability  # glue

TASK = "Cancel reservation EHGLP3 and refund it."
erl = ERL()  # glue
agent = Agent(
    "openai-chat:gpt-5-mini",
    instructions="You are an airline agent.",
    capabilities=[ERLCapability(erl, family="airline")],  # glue
)


@agent.tool_plain
def get_reservation(id: str) -> str:
    """Read a reservation."""
    return "basic economy"


with erl.run(TASK, family="airline") as run:  # glue
    answer = agent.run_sync(TASK).output
    run.success(source="test") if "cannot" in answer else run.failure(source="test")  # glue
print(answer)
