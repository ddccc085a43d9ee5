"""Play random policies against random sets of rules, where the row of a call is inserted, and judge what was let in."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, transaction
from django.utils import timezone

from memory.errors import InvalidInput
from memory.projects.actors import Actor
from runtime.approvals import decide_effect
from runtime.definitions.storage import let_run
from runtime.loop.journal import end_effect, plan_effect
from runtime.models.agents import Agent, AgentRevision
from runtime.models.conversations import Conversation
from runtime.models.effects import Effect
from runtime.models.runs import Run, RunStatus, Step
from runtime.models.tools import Tool, ToolRevision
from runtime.revisions import AgentSpec, create_agent
from runtime.rules import find_faults
from runtime.tools.catalogue import LoopTool, core_tools
from tests.chaos.agents.scene import load_average
from tests.chaos.agents.second_reading import Made, Rule, asks_a_person, may_call
from tests.factories import make_project

BY = Actor(label="user:chaos")
TOOLS = ("a", "b", "c", "d", "e")
BOX = "box"  # a tool in the sandbox that may call all of them
OUTCOMES = ("yes", "no", "maybe")
MOST_STEPS, MOST_CALLS = 3, 3
KINDS = ("pure", "local", "idempotent", "unsafe")


def play_random_rules(*, sets: int, seed: int = 0, at_most_seconds: float = 3_600) -> dict[str, Any]:
    """Play one policy against each of so many sets of rules, within the time, and return what came of it."""
    ends_at = time.monotonic() + at_most_seconds
    load, dice, counted = load_average(), random.Random(seed), Counter[str]()
    with letter_tools():
        agent = _make_agent()
        while counted["sets"] < sets and time.monotonic() < ends_at:
            counted["sets"] += 1
            with transaction.atomic():
                _Play(agent, _make_rules(dice, counted), dice, counted).play()
                transaction.set_rollback(True)
    return {
        "part": "rules",
        "passed": not any(counted[each] for each in ("disallowed", "unapproved", "refused_though_allowed")),
        "sets": counted["sets"],
        "sets_refused_when_saved": counted["impossible"],
        "calls": counted["calls"],
        "started": counted["started"],
        "refused": counted["refused"],
        "of_tools_in_the_sandbox": counted["by_tool"],
        "waited_for_a_person": counted["waited"],
        "started_without_a_decision": counted["unapproved"],
        "disallowed": counted["disallowed"],
        "refused_though_allowed": counted["refused_though_allowed"],
        "load": [load, load_average()],
    }


@contextmanager
def letter_tools() -> Iterator[None]:
    """Offer five tools that do nothing."""
    known = core_tools()
    for index, name in enumerate(TOOLS):
        kind = KINDS[index % len(KINDS)]
        known[name] = LoopTool(
            name=name, description=".", parameters={"type": "object"}, kind=kind, execute=lambda _: ""
        )
    try:
        yield
    finally:
        for name in TOOLS:
            del known[name]


def _make_agent() -> Agent:
    project = make_project()
    stored = Tool.objects.create(project=project, name=BOX, created_by=BY.label)
    revision = ToolRevision.objects.create(
        project=project,
        tool=stored,
        number=1,
        content_sha256="0" * 64,
        created_by=BY.label,
        description="A box.",
        parameters={"type": "object"},
        source="def box(): ...\n",
        uses=list(TOOLS),
        kind="pure",
        runtime="monty",
    )
    let_run(revision, by=BY)
    tools = (*({"name": name} for name in TOOLS), {"name": BOX, "revision": str(revision.pk)})
    return create_agent(project, name="letters", spec=AgentSpec(tools=tools), by=BY)


def _make_rules(dice: random.Random, counted: Counter[str]) -> list[Rule]:
    """Return a set of rules that can be saved."""
    while True:
        rules = [_make_rule(dice) for _ in range(dice.randint(1, 5))]
        if not find_faults(rules, tools=[*TOOLS, BOX]):
            return rules
        counted["impossible"] += 1


def _make_rule(dice: random.Random) -> Rule:
    tool = dice.choice(TOOLS)
    children = dice.sample(TOOLS, dice.randint(1, 3))
    kinds: list[Rule] = [
        {"type": "run_first", "tool": tool},
        {"type": "exit_loop", "tool": tool},
        {"type": "constrain_child_tools", "tool": tool, "children": children},
        {"type": "parent_last_tool", "tool": tool, "children": children},
        {
            "type": "conditional",
            "tool": tool,
            "outcomes": {each: dice.choice(TOOLS) for each in dice.sample(OUTCOMES, dice.randint(1, 2))},
            "require_outcome": dice.random() < 0.5,
        }
        | ({"default": dice.choice(TOOLS)} if dice.random() < 0.5 else {}),
        {"type": "max_count_per_step", "tool": tool, "count": dice.randint(1, 2)},
        {"type": "max_count_per_run", "tool": tool, "count": dice.randint(1, 3)},
        {"type": "required_before_exit", "tool": tool},
        {"type": "requires_approval", "tool": tool} | ({"when": "args.n > 5"} if dice.random() < 0.7 else {}),
    ]
    return dice.choice(kinds)


class _Play:
    """One run with one set of rules: calls at random, each carried to its end, and judged by the second reading."""

    def __init__(self, agent: Agent, rules: list[Rule], dice: random.Random, counted: Counter[str]) -> None:
        self._agent, self._rules, self._dice, self._counted = agent, rules, dice, counted
        self._made: list[Made] = []
        assert agent.current is not None
        copied = ("system", "model", "window_tokens", "max_output_tokens", "blocks", "tools", "limits", "compaction")
        revision = AgentRevision.objects.create(
            project_id=agent.project_id,
            agent=agent,
            number=2,
            content_sha256="1" * 64,
            created_by=BY.label,
            rules=rules,
            **{name: getattr(agent.current, name) for name in copied},
        )
        conversation = Conversation.objects.create(project_id=agent.project_id, agent=agent, created_by=BY.label)
        self._run = Run.objects.create(
            project_id=agent.project_id,
            agent=agent,
            revision=revision,
            conversation=conversation,
            status=RunStatus.RUNNING,
            prepared_at=timezone.now(),
            task="Play.",
            max_steps=50,
            approval_seconds=60,
            created_by=BY.label,
        )

    def play(self) -> None:
        for number in range(1, self._dice.randint(1, MOST_STEPS) + 1):
            step = Step.objects.create(
                project_id=self._run.project_id,
                run=self._run,
                seq=number,
                status="answered",
                finished_at=timezone.now(),
                through=0,
                prompt_sha256="",
                request_sha256="",
                fence=1,
            )
            planned = [self._plan(step, index) for index in range(self._dice.randint(1, MOST_CALLS))]
            for effect, made in planned:
                if made is not None:
                    self._carry_out(effect, made)

    def _plan(self, step: Step, index: int, parent: Effect | None = None) -> tuple[Effect, Made | None]:
        tool = self._dice.choice((*TOOLS, BOX) if parent is None else TOOLS)
        arguments: dict[str, Any] = self._dice.choice([{}, {"n": 1}, {"n": 9}, {"n": "9"}, {"n": None}])
        allowed = tool in may_call(self._rules, self._made, {*TOOLS, BOX}, step=step.seq, by_tool=parent is not None)
        effect = plan_effect(
            step, index=index, tool=tool, arguments=arguments, call_id=f"{step.seq}-{index}", parent=parent
        )
        is_in = effect.status != Effect.Status.REFUSED
        self._counted["calls"] += 1
        self._counted["by_tool"] += parent is not None
        self._counted["refused"] += not is_in
        self._counted["disallowed"] += is_in and not allowed
        self._counted["refused_though_allowed"] += allowed and not is_in
        if not is_in:
            return effect, None
        made = Made(tool=tool, step=step.seq, by_tool=parent is not None)
        self._made.append(made)
        return effect, made

    def _carry_out(self, effect: Effect, made: Made) -> None:
        """Start a call and end it; where it needs a person, only with the person's word."""
        asks = asks_a_person(self._rules, effect.tool, effect.arguments)
        if effect.status == Effect.Status.WAITING:
            self._counted["waited"] += 1
            self._counted["unapproved"] += self._try_to_start(effect)
            decided = self._decide(effect)
            if decided is None:
                made.output = self._read(effect)
                return
            effect = decided
        elif asks:
            self._counted["disallowed"] += 1
        if effect.tool == BOX:
            for index in range(self._dice.randint(0, 2)):
                child, child_made = self._plan(effect.step, index, parent=effect)
                if child_made is not None:
                    self._carry_out(child, child_made)
        if not self._try_to_start(effect):
            self._counted["refused_though_allowed"] += 1
            return
        self._counted["started"] += 1
        effect.refresh_from_db(fields=["status", "started_at"])
        made.output = self._dice.choice(OUTCOMES)
        end_effect(effect, status=Effect.Status.SUCCEEDED, result=made.output)

    def _decide(self, effect: Effect) -> Effect | None:
        """Decide as some person; return the call to be carried out, or None where there is none."""
        decision = self._dice.choice(["approve", "approve", "edit", "reject"])
        arguments = {"n": self._dice.randint(1, 9)} if decision == "edit" else None
        try:
            decided = decide_effect(
                effect, decision=decision, arguments_sha256=effect.arguments_sha256, by=BY, arguments=arguments
            )
        except InvalidInput:
            self._counted["refused_though_allowed"] += 1
            return None
        if decision == "reject":
            return None
        decided.run = decided.step.run = self._run
        return decided

    def _try_to_start(self, effect: Effect) -> bool:
        try:
            with transaction.atomic():
                changed = Effect.objects.filter(pk=effect.pk).update(status="started", started_at=timezone.now())
        except DatabaseError:
            return False
        return bool(changed)

    def _read(self, effect: Effect) -> str:
        return Effect.objects.values_list("error", flat=True).get(pk=effect.pk)
