"""OpenAI's client in a loop; `opentelemetry-instrument`, which runs it, knows only ERL's address and key."""

from openai import OpenAI
from opentelemetry import trace

client = OpenAI()
function = {"name": "get_reservation", "parameters": {"type": "object", "properties": {"id": {"type": "string"}}}}
messages = [{"role": "user", "content": "Cancel reservation EHGLP3."}]
with trace.get_tracer("airline").start_as_current_span("cancel"):
    while True:
        answer = client.chat.completions.create(
            model="gpt-4o-mini", messages=messages, tools=[{"type": "function", "function": function}]
        )
        message = answer.choices[0].message
        if not message.tool_calls:
            break
        call = message.tool_calls[0]
        messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "basic economy"}]
