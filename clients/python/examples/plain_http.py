"""Any language that speaks HTTP: two requests around the agent, here with httpx."""

import json
import os
from uuid import uuid4

import httpx
from openai import OpenAI

TASK = "Cancel reservation EHGLP3 and refund it."
headers = {"Authorization": f"Bearer {os.environ['ERL_API_KEY']}"}  # glue
erl = httpx.Client(base_url=f"{os.environ['ERL_URL']}/api/v1", headers=headers, timeout=5)  # glue
lessons = erl.post("/retrieve", json={"task": TASK, "task_id": "airline"}).json()  # glue

messages = [
    {"role": "system", "content": f"You are an airline agent.\n\n{lessons['context']}"},  # glue
    {"role": "user", "content": TASK},
]
tool = {"name": "get_reservation", "parameters": {"type": "object", "properties": {"id": {"type": "string"}}}}
while True:
    reply = OpenAI().chat.completions.create(
        model="gpt-5-mini", messages=messages, tools=[{"type": "function", "function": tool}]
    )
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        about = {"id": json.loads(call.function.arguments)["id"], "cabin": "basic_economy"}
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(about)})

outcome = "success" if "cannot" in messages[-1]["content"] else "failure"  # glue
run = {"task": TASK, "task_id": "airline", "messages": messages, "outcome": outcome, "outcome_source": "test"}  # glue
run["retrieval_id"] = lessons["retrieval_id"]  # glue
erl.post("/trajectories", json=run, headers={"Idempotency-Key": str(uuid4())}).raise_for_status()  # glue
print(messages[-1]["content"])
