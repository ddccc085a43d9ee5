"""A loop of one's own around OpenAI's client."""

import json

from openai import OpenAI

from erl_client import ERL  # glue

PROMPT = "You are an airline agent."
TASK = "Cancel reservation EHGLP3 and refund it."
TOOL = {
    "name": "get_reservation",
    "description": "Reads a reservation.",
    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}},
}


def get_reservation(id: str) -> str:
    return json.dumps({"id": id, "cabin": "basic_economy"})


def solve(client: OpenAI, task: str, system: str) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": task}]
    while True:
        tools = [{"type": "function", "function": TOOL}]
        reply = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=tools).choices[0].message
        if not reply.tool_calls:
            return reply.content or ""
        messages.append(reply)
        for call in reply.tool_calls:
            result = get_reservation(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


erl = ERL()  # glue
client = erl.wrap(OpenAI())  # glue
with erl.run(TASK, family="airline") as run:  # glue
    answer = solve(client, TASK, f"{PROMPT}\n\n{run.context}")  # glue
    run.success(source="test") if "cannot" in answer else run.failure(source="test")  # glue
print(answer)
