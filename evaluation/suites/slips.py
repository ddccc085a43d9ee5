"""Closed loops with a scripted agent that slips: do lessons that the offline reflector finds keep it from slipping?"""

from evaluation.environments.base import Environment
from evaluation.environments.bfcl import Bfcl, require_bfcl
from evaluation.environments.clerk import Clerk
from evaluation.suites.base import About, Options
from evaluation.suites.loop.suite import ClosedLoop
from reflection.reflectors.reflections import ReflectorFactory
from reflection.reflectors.rules import RulesReflector

PROVES = (
    "This shows that the offline rules find lessons in failing runs, that these reach the agent in new tasks, and that "
    "they prevent the mistakes they are about. It says nothing about a language model: the agent is a script. It knows "
    "how to do each task, slips by seeded habits, and obeys each lesson that names the tools it is about to call."
)


class SlipLoop(ClosedLoop):
    """One unit per seed; a seed decides the habits of the agent and which tasks it learns from."""

    default_arms = ("none", "hybrid:{k}", "shuffled", "flipped", "poison-unapproved")
    flips_advice = True
    seconds: float  # for one seed, on two idle processors

    def foresee_seconds(self, options: Options) -> float | None:
        return self.seconds * options.seeds

    def make_reflector(self, options: Options) -> ReflectorFactory | None:
        return lambda *, ask: RulesReflector()

    def count_trials(self, options: Options) -> int:
        return 1


class FunctionCalls(SlipLoop):
    """Dialogues of the function-calling leaderboard."""

    seconds = 40.0
    about = About(
        name="bfcl",
        title="Function calls over several turns: do lessons from the offline rules prevent slips?",
        data="Berkeley Function Calling Leaderboard v4, multi-turn base: 200 dialogues with eight simulated services",
        licence="Apache-2.0 (bfcl-eval)",
        splits="Each seed draws half of the dialogues to learn from; the other half are the tests.",
        seeds="Each seed draws other halves and an agent with other habits.",
        proves=PROVES,
        reflector="rules, offline; every proposal is approved by the policy “evaluation”",
    )

    def check(self, options: Options) -> None:
        require_bfcl()

    def open(self, options: Options) -> Environment:
        return Bfcl()


class LiveOffice(SlipLoop):
    """The office of the suite live, without a language model."""

    seconds = 20.0
    about = About(
        name="clerk",
        title="A small office: do lessons from the offline rules prevent slips?",
        data="A simulated office, generated from a seed: 40 tasks to learn from and 40 others, in four families",
        licence="Apache-2.0, part of this project",
        splits="The two splits have different people, orders and dates; the office's rules are the same.",
        seeds="Each seed generates different tasks and an agent with other habits.",
        proves=PROVES,
        reflector="rules, offline; every proposal is approved by the policy “evaluation”",
    )

    def open(self, options: Options) -> Environment:
        return Clerk()
