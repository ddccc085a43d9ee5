from agent import MODEL, PROVIDER, TASK, get_reservation, record, traces
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

SmolagentsInstrumentor().instrument(tracer_provider=traces)
model = OpenAIServerModel(MODEL, api_base=PROVIDER["base_url"], api_key=PROVIDER["api_key"])
agent = ToolCallingAgent([tool(get_reservation)], model, verbosity_level=0)
record(lambda: agent.run(TASK))
