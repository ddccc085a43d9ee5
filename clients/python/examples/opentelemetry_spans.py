"""Any agent that is instrumented with OpenTelemetry; here one of pydantic-ai."""

from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.capabilities import Instrumentation

from erl_client import ERL  # glue
from erl_client.otel import ERLSpanProcessor  # glue

TASK = "Cancel reservation EHGLP3 and refund it."
erl = ERL()  # glue
traces = TracerProvider()
traces.add_span_processor(ERLSpanProcessor(erl, family="airline"))  # glue
agent = Agent(
    "openai-chat:gpt-5-mini", capabilities=[Instrumentation(settings=InstrumentationSettings(tracer_provider=traces))]
)


@agent.tool_plain
def get_reservation(id: str) -> str:
    """Read a reservation."""
    return "basic economy"


with erl.run(TASK, family="airline") as run:  # glue
    answer = agent.run_sync(TASK, instructions=f"You are an airline agent.\n\n{run.context}").output  # glue
    run.success(source="test") if "cannot" in answer else run.failure(source="test")  # glue
print(answer)
