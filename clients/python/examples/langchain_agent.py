"""An agent of LangChain."""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from erl_client import ERL  # glue
from erl_client.langchain import ERLMiddleware  # glue

TASK = "Cancel reservation EHGLP3 and refund it."


def get_reservation(id: str) -> str:
    """Read a reservation."""
    return "basic economy"


erl = ERL()  # glue
agent = create_agent(
    ChatOpenAI(model="gpt-5-mini"),
    tools=[get_reservation],
    system_prompt="You are an airline agent.",
    middleware=[ERLMiddleware(erl, family="airline")],  # glue
)
with erl.run(TASK, family="airline") as run:  # glue
    answer = agent.invoke({"messages": [("user", TASK)]})["messages"][-1].text
    run.success(source="test") if "cannot" in answer else run.failure(source="test")  # glue
print(answer)
