"""An agent that follows a plan with slips, obeys its lessons, and reacts to errors as its character has it."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evaluation.environments.scripted.advice import GivenAdvice
from evaluation.environments.scripted.plan import PlannedCall, ScriptedAnswer, Slip, Work, World
from evaluation.environments.scripted.slips import make_up, occurs

MAX_STEPS, SPARE_STEPS = 30, 8
REPEATS = 2
REACTIONS = ("recover",) * 5 + ("repeat",) * 2 + ("give up",) * 2 + ("loop",)


class ScriptedAgent:
    """One try. `steps` is what it did, `answers` the values of its answers by turn."""

    def __init__(self, world: World, work: Work, slips: Sequence[Slip], *, advice: GivenAdvice, seed: str) -> None:
        self.world, self.slips, self.advice, self.seed = world, slips, advice, seed
        self.plan, self.requests, self.forms, self.sources = work.plan, work.requests, work.forms, work.sources
        self.heard: list[str] = []
        self.called: set[str] = set()
        self.unneeded = frozenset(work.offered) - {call.name for call in work.plan}
        self.steps: list[dict[str, Any]] = []
        self.answers: list[list[Any]] = [[] for _ in work.requests]
        self.max_steps = max(MAX_STEPS, len(work.plan) + SPARE_STEPS)
        self.is_cut = False

    def do_turn(self, turn: int) -> None:
        """Do what the user asked for in one turn, as far as the agent gets."""
        failure = ""
        for index, call in enumerate(self.plan):
            if call.turn != turn or not self._is_wanted(index):
                continue
            wanted = self._form(index)
            for name in self.advice.first_of(wanted.name):
                # Once is enough: the agent has the answer then.
                if name in self.unneeded - self.called:
                    self._do(turn, PlannedCall(turn=turn, name=name))  # as told, though the task does not need it
            answer = self._do(turn, wanted)
            if answer.is_error:
                answer = self._react(turn, index, wanted, answer)
            if answer.is_error:
                failure = answer.text
                break
        if turn + 1 < len(self.requests) and not self.is_cut:
            self._say(turn, failure)

    def _is_wanted(self, place: int) -> bool:
        """Return whether to make a call of the plan: a slip leaves it out, and a lesson has the last word."""
        verdicts = [self.advice.comes_first(self.plan[place].name, later.name) for later in self.plan[place + 1 :]]
        if True in verdicts or False in verdicts:
            return next(verdict for verdict in verdicts if verdict is not None)
        return not any(place in slip.dropped for slip in self.slips)

    def _form(self, place: int) -> PlannedCall:
        """Return the call as the agent makes it: with its slip, or as a lesson says."""
        right = self.plan[place]
        slip = self._slip_at(place)
        wanted = slip.replaced[place] if slip else right
        if slip and slip.kind == "wrong tool" and self.advice.prefers(right.name, wanted.name):
            return right
        if slip and slip.kind == "invented" and self.advice.comes_first(slip.habit[2], right.name):
            return right
        if wanted.name != right.name:
            return wanted
        arguments = dict(wanted.arguments)
        for name, value in right.arguments.items():
            convert = self.forms.get((right.name, name))
            other = wanted.arguments.get(name, value)
            # The agent knows two forms of a value, and takes the one that a lesson describes.
            if convert and other == value:
                other = convert(value)
            told = self.advice.form_of(right.name, name, right=value, wrong=other) if other != value else None
            arguments[name] = arguments.get(name, value) if told is None else told
            if (place, name) in self.sources and not occurs(value, "\n".join(self.heard)):
                # It did not read what holds the value.
                arguments[name] = make_up(value)
        return replace(wanted, arguments=arguments)

    def _react(self, turn: int, place: int, call: PlannedCall, answer: ScriptedAnswer) -> ScriptedAnswer:
        """Mend the slips that explain an error, repeat the call, or give up."""
        # Only a slip of its own can be mended; any other error is the world's.
        mended = sorted(position for slip in self.slips for position in slip.positions if position < place)
        if not mended and self._slip_at(place) is None:
            return answer
        # By the seed of the try, so that another trial of the same task may react differently.
        reaction = random.Random(f"{self.seed}:{place}:react").choice(REACTIONS)  # noqa: S311 - repeatable by design
        if reaction == "recover":
            for earlier in mended:
                self._do(turn, self.plan[earlier])
            # After the error it looks closely.
            return self._do(turn, self.plan[place])
        for _ in range({"repeat": REPEATS, "loop": MAX_STEPS}.get(reaction, 0)):
            if answer.is_error:
                answer = self._do(turn, call)
        return answer

    def _slip_at(self, place: int) -> Slip | None:
        return next((slip for slip in self.slips if place in slip.replaced), None)

    def _do(self, turn: int, call: PlannedCall) -> ScriptedAnswer:
        if len(self.steps) >= self.max_steps:
            # An agent that goes round in circles has to end at some time.
            self.is_cut = True
            return ScriptedAnswer(text="The limit of steps is reached.", is_error=True)
        answer = self.world.call(call.name, call.arguments)
        self.called.add(call.name)
        self.heard.append(answer.text)
        self.answers[turn].append(answer.value)
        action = {"name": call.name, "arguments": call.arguments}
        self.steps.append({"action": action, "observation": answer.text})
        return answer

    def _say(self, turn: int, failure: str) -> None:
        text = "I could not do this." if failure else "Done."
        action = {"name": "respond", "arguments": {"content": text}}
        self.steps.append({"action": action, "observation": self.requests[turn + 1]})
