"""A function whose calls are runs."""

from openai import OpenAI

from erl_client import ERL, current_run  # glue

erl = ERL()  # glue
client = erl.wrap(OpenAI())  # glue


@erl.learns(family="airline")  # glue
def solve(task: str) -> str:
    messages = [
        {"role": "system", "content": f"You are an airline agent.\n\n{erl.context()}"},  # glue
        {"role": "user", "content": task},
    ]
    answer = client.chat.completions.create(model="gpt-5-mini", messages=messages).choices[0].message.content or ""
    if "cannot" in answer:
        current_run().success(source="test")  # glue
    return answer


print(solve("Cancel reservation EHGLP3 and refund it."))
