"""An agent with tools and a language model, on new tasks with and without lessons."""

from pathlib import Path

from evaluation.environments.base import Environment
from evaluation.environments.office_agent import OfficeWithModel
from evaluation.errors import EvaluationError
from evaluation.ledger import attach_ledger
from evaluation.suites.base import About, Options
from evaluation.suites.loop.suite import ClosedLoop
from reflection.llm.base import ProviderNotConfigured
from reflection.llm.registry import find_config, get_provider


class Live(ClosedLoop):
    """One unit per seed."""

    about = About(
        name="live",
        title="A language model with tools: does it do better with lessons?",
        data="A simulated office, generated from a seed: 40 tasks to learn from and 40 others, in four families",
        licence="Apache-2.0, part of this project",
        splits="The two splits have different people, orders and dates; the office's rules are the same.",
        seeds="Each seed generates different tasks. It does not control the variation of the model itself.",
        proves=(
            "This shows what lessons are worth to this model in this small office. It does not show what they are "
            "worth to another model or in your own work."
        ),
        reflector="the configured reflector",
    )

    def asks_model(self, options: Options) -> bool:
        return True

    def check(self, options: Options) -> None:
        try:
            config = find_config()
        except ProviderNotConfigured as error:
            raise EvaluationError(str(error)) from error
        if config is None:
            raise EvaluationError(
                "The suite live needs a language model, and none is configured. Set ERL_LLM_PROVIDER "
                "(docs/language-models.md), and start with --limit 2 --experience 4 --max-calls 100."
            )

    def open(self, options: Options) -> Environment:
        journal = Path(options.journal) if options.journal else None
        ledger = attach_ledger(
            get_provider(), journal=journal, max_calls=options.max_calls, max_cost_usd=options.max_cost_usd
        )
        return OfficeWithModel(ledger.chat)
