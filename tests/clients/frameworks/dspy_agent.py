import dspy
from agent import MODEL, PROVIDER, TASK, get_reservation, record, traces
from openinference.instrumentation.dspy import DSPyInstrumentor

DSPyInstrumentor().instrument(tracer_provider=traces)
dspy.configure(lm=dspy.LM(f"openai/{MODEL}", api_base=PROVIDER["base_url"], api_key=PROVIDER["api_key"], cache=False))
agent = dspy.ReAct("task -> answer", tools=[get_reservation])
record(lambda: agent(task=TASK).answer)
