import asyncio

from agent import MODEL, PROVIDER, TASK, get_reservation, record, traces
from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from openinference.instrumentation.google_adk import GoogleADKInstrumentor

GoogleADKInstrumentor().instrument(tracer_provider=traces)
model = LiteLlm(f"openai/{MODEL}", api_base=PROVIDER["base_url"], api_key=PROVIDER["api_key"])
runner = InMemoryRunner(LlmAgent(name="travel", model=model, tools=[get_reservation]), app_name="airline")


async def ask() -> str:
    session = await runner.session_service.create_session(app_name="airline", user_id="ana")
    message = types.Content(role="user", parts=[types.Part(text=TASK)])
    answer = ""
    async for event in runner.run_async(user_id="ana", session_id=session.id, new_message=message):
        answer = event.content.parts[0].text or "" if event.content else answer
    return answer


record(lambda: asyncio.run(ask()))
