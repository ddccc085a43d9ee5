"""Tune the settings of an agent by what its runs ran into."""

from runtime.changes.proposals import Proposal
from runtime.evolution.sequences import FEWEST_RUNS
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.models.runs import Step

CUT_OFF = "length"  # why an answer ended
MOST_OF_WINDOW = 4  # an answer may take this part of the window at most


def tune(agent: Agent) -> Proposal | None:
    """Return a proposal of longer answers where several runs of what the agent is now had answers cut off."""
    current = agent.current
    assert current is not None  # of an agent that runs
    longer = min(2 * current.max_output_tokens, current.window_tokens // MOST_OF_WINDOW)
    cut = Step.objects.filter(run__agent=agent, run__revision=current, finish_reason=CUT_OFF)
    runs = sorted(map(str, cut.values_list("run_id", flat=True).distinct()))
    if len(runs) < FEWEST_RUNS or longer <= current.max_output_tokens:
        return None
    return Proposal(
        reason=(
            f"In {len(runs)} runs an answer was cut off at {current.max_output_tokens:,} tokens. With {longer:,} it "
            "has room to end."
        ),
        max_output_tokens=longer,
        evidence={"runs": runs[:20]},
        source=Change.Source.SLEEP,
    )
