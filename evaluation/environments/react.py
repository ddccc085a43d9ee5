"""A ReAct agent in the office (Yao et al. 2023): thought, action, observation, with one model call per turn."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from evaluation.environments.base import Split, Task, TryResult
from evaluation.environments.office import TOOLS, describe_tools, make_tasks, open_office, read_json
from evaluation.ledger import CAP_REACHED, price_of
from reflection.llm.base import ProviderError
from reflection.llm.chat import ChatAnswer, ChatRequest

MAX_TURNS = 8
MAX_OUTPUT_TOKENS = 200
SYSTEM = """You work in an office and use tools. Do what the task asks and nothing else, then call finish.
Tools:
{tools}
Answer with one JSON object and nothing else:
{{"thought": "...", "tool": "name of a tool", "arguments": [{{"name": "...", "value": "..."}}]}}
{lessons}"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "thought": {"type": "string"},
        "tool": {"type": "string", "enum": list(TOOLS)},
        "arguments": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                "required": ["name", "value"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["thought", "tool", "arguments"],
    "additionalProperties": False,
}
Complete = Callable[[ChatRequest], ChatAnswer]


class OfficeWithModel:
    """The office with a language model as agent. Trials differ only by the model's own variation."""

    name = "office"

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        return make_tasks(split, seed=seed)

    def run(self, task: Task, *, lessons: str, trial: int) -> TryResult:
        office = open_office(task.id)
        steps: list[dict[str, Any]] = []
        answers: list[ChatAnswer] = []
        error = ""
        system = SYSTEM.format(tools=describe_tools(), lessons=lessons)
        while len(answers) < MAX_TURNS and not office.is_over:
            try:
                answers.append(self._complete(_ask(system, task, steps, trial)))
            except ProviderError as failure:
                if failure.code == CAP_REACHED:
                    raise
                error = failure.code
                break
            steps.append(_act(office.call, answers[-1].text))
        return TryResult(
            success=office.is_done and not error,
            steps=steps,
            turns=len(answers),
            calls=len(answers),
            input_tokens=sum(answer.input_tokens for answer in answers),
            output_tokens=sum(answer.output_tokens for answer in answers),
            cost_usd=sum(map(price_of, answers)),
            error=error,
        )


def _ask(system: str, task: Task, steps: list[dict[str, Any]], trial: int) -> ChatRequest:
    lines = [f"Task: {task.text}"]
    for step in steps:
        action = step.get("action")
        said = f"{action['name']}({json.dumps(action['arguments'])})" if action else step["thought"]
        lines.append(f"You: {said}\nAnswer: {step['observation']}")
    user = "\n".join([*lines, f"What is your next step? (try {trial + 1})"])
    return ChatRequest.single(system=system, user=user, max_output_tokens=MAX_OUTPUT_TOKENS, json_schema=SCHEMA)


def _act(call: Callable[[str, dict[str, str]], str], text: str) -> dict[str, Any]:
    """Carry out the model's answer and return the step."""
    answer = read_json(text)
    if not isinstance(answer, dict) or not isinstance(answer.get("tool"), str):
        return {"thought": text[:500], "observation": "Error: answer with one JSON object that names a tool"}
    given = answer.get("arguments")
    if isinstance(given, list):
        pairs = [each for each in given if isinstance(each, dict) and "name" in each]
        arguments = {str(each["name"]): str(each.get("value", "")) for each in pairs}
    else:
        arguments = {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}
    return {
        "thought": str(answer.get("thought", "")),
        "action": {"name": answer["tool"], "arguments": arguments},
        "observation": call(answer["tool"], arguments),
    }
