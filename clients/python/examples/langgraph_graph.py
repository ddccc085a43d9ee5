"""A LangGraph graph of one's own."""

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from erl_client import ERL  # glue
from erl_client.langchain import ERLCallbacks  # glue

TASK = "Cancel reservation EHGLP3 and refund it."


@tool
def get_reservation(id: str) -> str:
    """Read a reservation."""
    return "basic economy"


model = ChatOpenAI(model="gpt-5-mini").bind_tools([get_reservation])
graph = StateGraph(MessagesState)
graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([get_reservation]))
graph.add_edge(START, "agent")
graph.add_conditional_edges("agent", tools_condition)
graph.add_edge("tools", "agent")
agent = graph.compile()

erl = ERL()  # glue
with erl.run(TASK, family="airline") as run:  # glue
    messages = [SystemMessage(f"You are an airline agent.\n\n{run.context}"), HumanMessage(TASK)]  # glue
    answer = agent.invoke({"messages": messages}, {"callbacks": [ERLCallbacks(run)]})["messages"][-1].text  # glue
    run.success(source="test") if "cannot" in answer else run.failure(source="test")  # glue
print(answer)
