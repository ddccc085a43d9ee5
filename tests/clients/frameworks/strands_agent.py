from agent import MODEL, PROVIDER, TASK, get_reservation, record
from strands import Agent, tool
from strands.models.openai import OpenAIModel

model = OpenAIModel(client_args=PROVIDER, model_id=MODEL)
agent = Agent(name="travel", model=model, tools=[tool(get_reservation)], callback_handler=None)
record(lambda: agent(TASK))
