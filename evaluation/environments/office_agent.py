"""The office with a language model as agent: the loop of runs in memory, whose calls the office answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.environments.base import Split, Task, TryResult
from evaluation.environments.office import TOOLS, Office, make_tasks, open_office
from evaluation.ledger import CAP_REACHED, price_of
from reflection.llm.base import ProviderError
from reflection.llm.chat import ChatAnswer, ChatRequest, ChatTool, PromptMessage
from runtime.changes.trials import Subject, hold_trial
from runtime.limits import Limits

MAX_TURNS = 8
MAX_OUTPUT_TOKENS = 200
SYSTEM = "You work in an office and use tools. Do what the task asks and nothing else, then call finish."
RULES = ({"type": "exit_loop", "tool": "finish"}, {"type": "required_before_exit", "tool": "finish"})
Chat = Callable[[ChatRequest], ChatAnswer]


def _read_tool(name: str, line: str) -> ChatTool:
    """Return a tool as the model reads it. What an argument has to look like, it has to find out."""
    signature, _, description = line.partition(": ")
    names = signature.partition("(")[2].rstrip(")").split(", ")
    parameters = {"type": "object", "properties": {parameter: {"type": "string"} for parameter in names}}
    return ChatTool(name=name, description=description, parameters=parameters)


CHAT_TOOLS = tuple(_read_tool(name, line) for name, line in TOOLS.items())


@dataclass(kw_only=True, slots=True)
class _Desk:
    """Answers the calls of one try, and writes the steps down."""

    office: Office
    answers: list[ChatAnswer] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> str:
        observation = self.office.call(tool, arguments)
        action = {"name": tool, "arguments": arguments}
        self.steps.append({"thought": self.answers[-1].text, "action": action, "observation": observation})
        return observation

    def note(self, tool: str, arguments: dict[str, Any], *, has_failed: bool) -> None:
        """No tool of the office runs in the sandbox."""


class OfficeWithModel:
    """The office with a language model as agent. Trials differ only by the model's own variation."""

    name = "office"

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        return make_tasks(split, seed=seed)

    def run(self, task: Task, *, lessons: str, trial: int) -> TryResult:
        desk, error = _Desk(office=open_office(task.id)), ""
        subject = Subject(
            head="\n".join(part for part in (SYSTEM, lessons) if part),
            tools=CHAT_TOOLS,
            rules=RULES,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            limits=Limits(max_steps=MAX_TURNS),
        )

        def ask(step: int, request: ChatRequest) -> ChatAnswer:
            desk.answers.append(self._chat(request))
            return desk.answers[-1]

        message = PromptMessage(role="user", content=f"Task: {task.text} (try {trial + 1})")
        try:
            hold_trial(subject, [message], ask, desk)
        except ProviderError as failure:
            # The limit ends the evaluation; any other failure is one lost try.
            if failure.code == CAP_REACHED:
                raise
            error = failure.code
        return TryResult(
            success=desk.office.is_done and not error,
            steps=desk.steps,
            turns=len(desk.answers),
            calls=len(desk.answers),
            input_tokens=sum(answer.input_tokens for answer in desk.answers),
            output_tokens=sum(answer.output_tokens for answer in desk.answers),
            cost_usd=sum(map(price_of, desk.answers)),
            error=error,
        )
