from agent import MODEL, PROVIDER, TASK, get_reservation, record, traces
from agno.agent import Agent
from agno.models.openai import OpenAIChat
from openinference.instrumentation.agno import AgnoInstrumentor

AgnoInstrumentor().instrument(tracer_provider=traces)
agent = Agent(name="travel", model=OpenAIChat(MODEL, **PROVIDER), tools=[get_reservation], telemetry=False)
record(lambda: agent.run(TASK).content)
