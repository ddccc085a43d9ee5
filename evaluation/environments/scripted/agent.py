"""An agent that follows a plan with slips, and reacts to errors as its character has it."""

import random
from collections.abc import Sequence
from typing import Any

from evaluation.environments.scripted.plan import Answer, PlannedCall, Slip, World

MAX_STEPS = 30
REPEATS = 2
REACTIONS = ("recover",) * 5 + ("repeat",) * 2 + ("give up",) * 2 + ("loop",)


class ScriptedAgent:
    """One try. `steps` is what it did, `answers` the values of its answers by turn."""

    def __init__(
        self, world: World, plan: Sequence[PlannedCall], slips: Sequence[Slip], requests: Sequence[str], *, seed: str
    ) -> None:
        self.world, self.plan, self.slips, self.requests, self.seed = world, plan, slips, requests, seed
        self.steps: list[dict[str, Any]] = []
        self.answers: list[list[Any]] = [[] for _ in requests]
        self.is_cut = False

    def do_turn(self, turn: int) -> None:
        """Do what the user asked for in one turn, as far as the agent gets."""
        failure = ""
        for place, call in enumerate(self.plan):
            if call.turn != turn or any(place in slip.dropped for slip in self.slips):
                continue
            slip = self._slip_at(place)
            wanted = slip.replaced.get(place, call) if slip else call
            answer = self._do(turn, wanted)
            if answer.is_error:
                answer = self._react(turn, place, wanted, answer)
            if answer.is_error:
                failure = answer.text
                break
        if turn + 1 < len(self.requests) and not self.is_cut:
            self._say(turn, failure)

    def _react(self, turn: int, place: int, call: PlannedCall, answer: Answer) -> Answer:
        """Mend the slips that explain an error, repeat the call, or give up."""
        mended = sorted(each for slip in self.slips for each in slip.positions if each < place)
        if not mended and self._slip_at(place) is None:
            return answer
        reaction = random.Random(f"{self.seed}:{place}:react").choice(REACTIONS)  # noqa: S311 - repeatable by design
        if reaction == "recover":
            for earlier in mended:
                self._do(turn, self.plan[earlier])
            return self._do(turn, self.plan[place])
        for _ in range({"repeat": REPEATS, "loop": MAX_STEPS}.get(reaction, 0)):
            if answer.is_error:
                answer = self._do(turn, call)
        return answer

    def _slip_at(self, place: int) -> Slip | None:
        return next((slip for slip in self.slips if place in slip.replaced), None)

    def _do(self, turn: int, call: PlannedCall) -> Answer:
        if len(self.steps) >= MAX_STEPS:
            self.is_cut = True
            return Answer(text="The limit of steps is reached.", is_error=True)
        answer = self.world.call(call.name, call.arguments)
        self.answers[turn].append(answer.value)
        action = {"name": call.name, "arguments": call.arguments}
        self.steps.append({"action": action, "observation": answer.text})
        return answer

    def _say(self, turn: int, failure: str) -> None:
        said = "I could not do this." if failure else "Done."
        action = {"name": "respond", "arguments": {"content": said}}
        self.steps.append({"action": action, "observation": self.requests[turn + 1]})
