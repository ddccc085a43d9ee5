"""The suite `bfcl`: dialogues of the Berkeley Function Calling Leaderboard, worked on off the record.

A trial has the prompt, rules and sandbox of a run, and no journal (runtime/changes/trials.py): the simulated services
answer its calls. The leaderboard's own checker compares states and answers after each turn.
"""

import importlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from evaluation.environments.bfcl import Apis, Dialogue, read_dialogues, require_bfcl
from evaluation.environments.bfcl_tools import read_tools
from evaluation.environments.scripted.plan import ScriptedAnswer
from evaluation.evolution.suite import EvolutionTask, TaskOutcome
from evaluation.evolution.workers import Script, Worker
from reflection.llm.chat import ChatTool, PromptMessage
from runtime.changes.proposals import ProposedChange
from runtime.changes.sequences import ObservedCall, ObservedRun
from runtime.changes.trials import Subject, Trial, hold_trial

FAMILIES = ("GorillaFileSystem", "TradingBot", "TravelAPI", "VehicleControlAPI")
READS = (
    *("get_", "list_", "view_", "display", "check_", "find_", "estimate_", "search", "ls", "cat", "tail", "pwd"),
    *("grep", "diff", "wc", "du", "verify_", "compute_", "contact_", "liter_", "gallon_"),
)


class BfclSuite:
    """200 dialogues in four families by their main service, 50 in each; of these all that the worker has the tools for.

    Args:
        most: how many dialogues of each family, 0 for all.
    """

    name = "bfcl"

    def __init__(self, worker: Worker | None = None, *, most: int = 0) -> None:
        require_bfcl()
        self._worker, self._most = worker or Script(), most

    def tasks(self) -> list[EvolutionTask]:
        tasks: dict[str, list[EvolutionTask]] = {}
        for dialogue in read_dialogues().values():
            if self._worker.can_use([tool.name for tool in self._offer(dialogue)]):
                own = tasks.setdefault(_family(dialogue), [])
                own.append(EvolutionTask(id=dialogue.id, family=_family(dialogue)))
        return [task for own in tasks.values() for task in own[: self._most or None]]

    def schemas(self) -> dict[str, Any]:
        return {name: parameters for name, (_, parameters) in read_tools().items()}

    def kinds(self) -> dict[str, str]:
        return {name: "pure" if name.partition("_")[2].startswith(READS) else "unsafe" for name in read_tools()}

    def work(self, task: EvolutionTask, proposal: ProposedChange, *, seed: str) -> TaskOutcome:
        dialogue = read_dialogues()[task.id]
        offered = self._offer(dialogue)
        subject = self._worker.subject(offered, proposal, self.schemas())
        return _Work(dialogue, subject, offered, self._worker).do(seed=seed)

    def _offer(self, dialogue: Dialogue) -> list[ChatTool]:
        return [tool for name, tool in self._chat_tools.items() if name.partition("_")[0] in dialogue.classes]

    @cached_property
    def _chat_tools(self) -> dict[str, ChatTool]:
        return {
            name: ChatTool(name=name, description=description, parameters=parameters)
            for name, (description, parameters) in read_tools().items()
        }


class _Work:
    """One dialogue. It is the host of its trials: what they call, the services answer."""

    def __init__(self, dialogue: Dialogue, subject: Subject, offered: Sequence[ChatTool], worker: Worker) -> None:
        self._dialogue, self._subject, self._worker = dialogue, subject, worker
        self._apis, self._right = Apis(dialogue), Apis(dialogue)
        self._qualified = {tool.name.partition("_")[2]: tool.name for tool in offered}
        self._answers: list[ScriptedAnswer] = []
        self._segment: list[ObservedCall] = []

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> Any:
        given = self._apis.call(tool.partition("_")[2], arguments)
        self._answers.append(given)
        value = _read(given.text)
        self._segment.append(ObservedCall(tool=tool, arguments=arguments, value=value))
        return value

    def note(self, tool: str, arguments: dict[str, Any], *, has_failed: bool) -> None:
        """What a tool in the sandbox called was answered here already."""

    def do(self, *, seed: str) -> TaskOutcome:
        checker = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
        messages: list[PromptMessage] = []
        steps = tokens = 0
        segments: list[tuple[ObservedCall, ...]] = []
        error = ""
        for turn, request in enumerate(self._dialogue.requests):
            planned = [call for call in self._dialogue.plan if call.turn == turn]
            expected = [self._right.call(call.name, call.arguments).value for call in planned]
            self._answers, self._segment = [], []
            messages.append(PromptMessage(role="user", content=request))
            # Names of methods repeat across services, so tools have the service in front.
            wanted = [replace(call, name=self._qualified[call.name]) for call in planned]
            ask = self._worker.ask(wanted, name=f"{seed}:{self._dialogue.id}:{turn}")
            trial = hold_trial(self._subject, messages, ask, self)
            messages.append(PromptMessage(role="assistant", content=trial.reply))
            steps, tokens = steps + trial.steps, tokens + trial.tokens
            segments.append(tuple(self._segment))
            # The first fault is the cause; those of later turns often follow from it.
            error = error or self._find_fault(checker, trial, expected, turn)
        run = ObservedRun(id=self._dialogue.id, segments=tuple(segments))
        return TaskOutcome(solved=not error, steps=steps, tokens=tokens, run=run, error=error)

    def _find_fault(self, checker: Any, trial: Trial, expected: list[Any], turn: int) -> str:
        if not self._worker.came_to_an_end(trial):
            failed = next((call.error for call in trial.calls if call.error), "")
            return f"turn {turn + 1}: {trial.reply or 'no end'} {failed}"[:200]
        if not checker.state_checker(self._apis.instances, self._right.instances)["valid"]:
            return f"turn {turn + 1}: another state"
        given = [answer.value for answer in self._answers]
        return "" if checker.response_checker(given, expected, turn)["valid"] else f"turn {turn + 1}: other answers"


def _family(dialogue: Dialogue) -> str:
    return next(family for family in FAMILIES if family in dialogue.classes)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
