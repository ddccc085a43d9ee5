from agent import MODEL, PROVIDER, TASK, get_reservation, record, traces
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

CrewAIInstrumentor().instrument(tracer_provider=traces, skip_dep_check=True)
OpenAIInstrumentor().instrument(tracer_provider=traces)
llm = LLM(model=f"openai/{MODEL}", **PROVIDER)
agent = Agent(role="travel", goal="Serve passengers.", backstory="None.", llm=llm, tools=[tool(get_reservation)])
crew = Crew(agents=[agent], tasks=[Task(description=TASK, expected_output="An answer.", agent=agent)])
record(crew.kickoff)
