import asyncio

from agent import MODEL, PROVIDER, TASK, get_reservation, record, traces
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from openinference.instrumentation.autogen_agentchat import AutogenAgentChatInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

AutogenAgentChatInstrumentor().instrument(tracer_provider=traces)
OpenAIInstrumentor().instrument(tracer_provider=traces)
client = OpenAIChatCompletionClient(model=MODEL, **PROVIDER)
agent = AssistantAgent("travel", client, tools=[get_reservation], reflect_on_tool_use=True)
record(lambda: asyncio.run(agent.run(task=TASK)).messages[-1].content)
