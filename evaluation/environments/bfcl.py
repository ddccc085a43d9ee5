"""Dialogues of the Berkeley Function Calling Leaderboard (multi-turn), worked on by a scripted agent that slips."""

import ast
import copy
import importlib
import inspect
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evaluation.environments.base import Split, Task, TryResult
from evaluation.environments.bfcl_slips import FORMS, TOOLS
from evaluation.environments.scripted.advice import read_advice
from evaluation.environments.scripted.agent import ScriptedAgent
from evaluation.environments.scripted.plan import PlannedCall, ScriptedAnswer, Slip, Work, as_text
from evaluation.environments.scripted.slips import choose_slips, find_slips
from evaluation.errors import EvaluationError

STATELESS = ("MathAPI",)


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """One dialogue: what the user asks for, turn by turn, and the calls that do it."""

    id: str
    classes: tuple[str, ...]
    config: dict[str, Any]
    requests: tuple[str, ...]
    plan: tuple[PlannedCall, ...]
    long_context: bool = False  # the services have far more data than the dialogue is about


class Apis:
    """The simulated services of one dialogue."""

    def __init__(self, dialogue: Dialogue) -> None:
        self.instances = {name: _start(name, dialogue) for name in dialogue.classes}
        self.methods = {
            name: method
            for instance in self.instances.values()
            for name, method in inspect.getmembers(instance, inspect.ismethod)
            if not name.startswith("_")
        }

    def call(self, name: str, arguments: dict[str, Any]) -> ScriptedAnswer:
        """Call a method as the leaderboard does: whatever goes wrong is an answer."""
        try:
            value = self.methods[name](**copy.deepcopy(arguments))
        except Exception as error:
            return ScriptedAnswer(text=f"Error during execution: {error}", is_error=True, value=f"Error: {error}")
        rows = value if isinstance(value, list) else [value]
        is_error = any(isinstance(row, dict) and bool(row.get("error")) for row in rows)
        return ScriptedAnswer(text=as_text(value), is_error=is_error, value=as_text(value))


class Bfcl:
    """Half of the dialogues, drawn by the seed, to learn from; the others to test on."""

    name = "bfcl"

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        dialogues = list(read_dialogues().values())
        # The split depends on the seed alone, so both halves can be drawn apart.
        random.Random(f"bfcl:{seed}").shuffle(dialogues)  # noqa: S311 - repeatable by design
        middle = len(dialogues) // 2
        chosen = dialogues[:middle] if split == "source" else dialogues[middle:]
        return [Task(id=f"{seed}-{dialogue.id}", text="\n".join(dialogue.requests), family="") for dialogue in chosen]

    def run(self, task: Task, *, lessons: str, trial: int) -> TryResult:
        seed, _, dialogue_id = task.id.partition("-")
        return work_on(read_dialogues()[dialogue_id], lessons=lessons, seed=f"{seed}:{trial}")


def work_on(dialogue: Dialogue, *, lessons: str, seed: str) -> TryResult:
    """Let the agent work on a dialogue; the leaderboard's own checker compares states and answers after each turn."""
    checker = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
    todo, occasions = find_occasions(dialogue.id)
    slips = choose_slips(occasions, seed=seed.partition(":")[0], task=dialogue.id)
    apis, right = Apis(dialogue), Apis(dialogue)
    agent = ScriptedAgent(apis, todo, slips, advice=read_advice(lessons), seed=f"{seed}:{dialogue.id}")
    passed = 0
    is_right = True
    for turn in range(len(dialogue.requests)):
        agent.do_turn(turn)
        # A second world in which the right calls are made, as the leaderboard compares states.
        expected = [right.call(call.name, call.arguments).value for call in dialogue.plan if call.turn == turn]
        given = [value for values in agent.answers for value in values]
        is_right = (
            is_right
            and checker.state_checker(apis.instances, right.instances)["valid"]
            and checker.response_checker(given, expected, turn)["valid"]
        )
        passed += is_right
        if agent.is_cut:
            is_right = False
            break
    return TryResult(
        success=is_right,
        score=round(passed / len(dialogue.requests), 3),
        steps=agent.steps,
        turns=len(dialogue.requests),
        members={"tools": sorted(apis.methods)},
    )


def require_bfcl() -> None:
    """Check that the package is installed.

    Raises:
        EvaluationError: it is not.
    """
    if find_spec("bfcl_eval") is None:
        raise EvaluationError("The suite bfcl needs the package bfcl-eval: uv sync --group bfcl")


@cache
def read_dialogues(name: str = "base") -> dict[str, Dialogue]:
    """Return the dialogues of a set by id: "base" or "long_context"."""
    require_bfcl()
    folder = Path(importlib.import_module("bfcl_eval").__path__[0]) / "data"
    data = f"BFCL_v4_multi_turn_{name}.json"
    rows = [json.loads(line) for line in (folder / data).read_text(encoding="utf-8").splitlines()]
    lines = (folder / "possible_answer" / data).read_text(encoding="utf-8").splitlines()
    answers = {row["id"]: row["ground_truth"] for row in map(json.loads, lines)}
    return {row["id"]: _read(row, answers[row["id"]], long_context=name == "long_context") for row in rows}


def _read(row: dict[str, Any], turns: list[list[str]], *, long_context: bool) -> Dialogue:
    classes = tuple(sorted(row["involved_classes"]))
    return Dialogue(
        id=row["id"],
        classes=classes,
        config=row["initial_config"],
        requests=tuple("\n".join(message["content"] for message in turn) for turn in row["question"]),
        plan=tuple(_parse(call, turn, classes) for turn, calls in enumerate(turns) for call in calls),
        long_context=long_context,
    )


def _parse(text: str, turn: int, classes: Sequence[str]) -> PlannedCall:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    name = ast.unparse(call.func)
    method = next(getattr(_load(class_name), name) for class_name in classes if hasattr(_load(class_name), name))
    names = [parameter for parameter in inspect.signature(method).parameters if parameter != "self"]
    arguments = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
    arguments |= {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
    return PlannedCall(turn=turn, name=name, arguments=arguments)


@cache
def find_occasions(dialogue_id: str) -> tuple[Work, list[Slip]]:
    """Return what a dialogue asks for, and every slip that it gives occasion for."""
    dialogue = read_dialogues()[dialogue_id]
    work = Work(
        requests=dialogue.requests, plan=dialogue.plan, offered=tuple(Apis(dialogue).methods), forms=FORMS, tools=TOOLS
    )
    return find_slips(lambda: Apis(dialogue), work)


@cache
def _load(name: str) -> Any:
    places = importlib.import_module("bfcl_eval.constants.executable_backend_config").CLASS_FILE_PATH_MAPPING
    return getattr(importlib.import_module(places[name]), name)


def _start(name: str, dialogue: Dialogue) -> Any:
    instance = _load(name)()
    if name not in STATELESS:
        instance._load_scenario(copy.deepcopy(dialogue.config.get(name, {})), long_context=dialogue.long_context)
    return instance
