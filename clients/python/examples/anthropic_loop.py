"""A loop of one's own around Anthropic's client."""

import json

from anthropic import Anthropic

from erl_client import ERL  # glue

PROMPT = "You are an airline agent."
TASK = "Cancel reservation EHGLP3 and refund it."
TOOL = {
    "name": "get_reservation",
    "description": "Reads a reservation.",
    "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}},
}


def get_reservation(id: str) -> str:
    return json.dumps({"id": id, "cabin": "basic_economy"})


def solve(client: Anthropic, task: str, system: str) -> str:
    messages = [{"role": "user", "content": task}]
    while True:
        reply = client.messages.create(
            model="claude-sonnet-4-5", max_tokens=1_000, system=system, messages=messages, tools=[TOOL]
        )
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": get_reservation(**call.input)} for call in calls
        ]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]


erl = ERL()  # glue
client = erl.wrap(Anthropic())  # glue
with erl.run(TASK, family="airline") as run:  # glue
    answer = solve(client, TASK, f"{PROMPT}\n\n{run.context}")  # glue
    run.success(source="test") if "cannot" in answer else run.failure(source="test")  # glue
print(answer)
