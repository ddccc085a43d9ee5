"""An agent of the OpenAI Agents SDK."""

from agents import Agent, RunConfig, Runner, function_tool, set_trace_processors

from erl_client import ERL  # glue
from erl_client.openai_agents import ERLTracing  # glue

TASK = "Cancel reservation EHGLP3 and refund it."


@function_tool
def get_reservation(id: str) -> str:
    """Read a reservation."""
    return "basic economy"


agent = Agent(name="travel", instructions="You are an airline agent.", tools=[get_reservation])
erl = ERL()  # glue
tracing = ERLTracing(erl, family="airline")  # glue
set_trace_processors([tracing])  # glue; `add_trace_processor` keeps OpenAI's traces as well
config = RunConfig(call_model_input_filter=tracing.add_lessons)  # glue
with erl.run(TASK, family="airline") as run:  # glue
    answer = Runner.run_sync(agent, TASK, run_config=config).final_output
    run.success(source="test") if "cannot" in answer else run.failure(source="test")  # glue
print(answer)
