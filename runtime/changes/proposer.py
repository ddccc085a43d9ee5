"""Ask a language model what to change about an agent, where one is configured, and choose among what it proposes.

Its candidates are read strictly, tried on recorded runs, and only those are proposed that break nothing and that no
other beats in every family. Each question is paid from the project's budget, once.
"""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings

from memory.errors import MemoryAppError
from reflection.llm.calls import Ask
from reflection.llm.chat import ChatRequest
from reflection.llm.registry import find_provider
from reflection.prompts import Frame, prompt_version, read_prompt
from runtime.changes.choice import Choice, Tried, choose_proposals
from runtime.changes.drafts import MOST_CANDIDATES, Read, answer_schema, read_answer
from runtime.changes.evidence import Sections, collect, shows_a_cause
from runtime.changes.proposals import ProposedChange, foresee
from runtime.changes.trials import AskFor
from runtime.definitions.checks import find_example_faults, find_type_faults
from runtime.definitions.storage import find_schemas
from runtime.models.agents import Agent

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Thought:
    """What a model proposed that is worth proposing, and in sentences what became of the rest."""

    proposals: tuple[ProposedChange, ...] = ()
    said: str = ""


def may_ask() -> bool:
    """Tell whether a language model is configured, and may be asked without anyone waiting for the answer.

    Raises:
        ProviderNotConfigured: its settings are incomplete.
    """
    return settings.ERL_REFLECTOR != "rules" and find_provider() is not None


def version() -> str:
    """Return the version of the prompt, which covers all of its parts."""
    return prompt_version("propose-changes", "propose-data")


def think(agent: Agent, *, until: datetime, ask: Ask, ask_for: AskFor) -> Thought:
    """Ask for candidates by what recent runs show, and return those to propose.

    Args:
        until: later runs are not looked at, so that a job which is carried out again asks the same.
        ask: asks the configured model.
        ask_for: returns what asks the agent's own model, for the name of a rehearsal.
    """
    sections = collect(agent, until=until)
    if not shows_a_cause(sections):
        return Thought()
    read = ask_for_candidates(agent, sections, ask=ask)
    choice = choose_proposals(agent, read.proposals, ask_for)
    log.info(
        "changes_thought_of",
        agent=str(agent.pk),
        unusable=len(read.unusable),
        broken=len(choice.broken),
        beaten=len(choice.beaten),
        chosen=len(choice.chosen),
    )
    return Thought(proposals=tuple(map(_with_scores, choice.chosen)), said=_describe(read, choice))


def ask_for_candidates(agent: Agent, sections: Sections, *, ask: Ask) -> Read:
    """Ask the model once, and return what of its answer can be proposed, and why the rest cannot."""
    answer = ask("propose", build_request(sections))
    evidence = {"prompt_version": version(), "model": answer.model}
    return _leave_out_unfit(agent, read_answer(answer.text, finish_reason=answer.finish_reason, evidence=evidence))


def build_request(sections: Sections) -> ChatRequest:
    """Return the question: instructions of ours, and what the runs show as delimited data."""
    frame = Frame.of(sections)
    return ChatRequest.single(
        system=read_prompt("propose-changes").fill(most=str(MOST_CANDIDATES)),
        user=read_prompt("propose-data").fill(
            boundary=frame.boundary, mark=frame.mark, blocks=frame.blocks(sections.items())
        ),
        json_schema=answer_schema(),
        max_output_tokens=settings.ERL_LLM_MAX_OUTPUT_TOKENS,
    )


def _leave_out_unfit(agent: Agent, read: Read) -> Read:
    """Leave out what could not be proposed, or whose tool does not do what it says."""
    fit: list[ProposedChange] = []
    unusable = list(read.unusable)
    for proposal in read.proposals:
        try:
            foresee(agent, proposal)
        except MemoryAppError as refusal:
            unusable.append(str(refusal))
            continue
        if faults := _find_faults(agent, proposal):
            unusable.append(faults[0])
        else:
            fit.append(proposal)
    return Read(proposals=tuple(fit), unusable=tuple(unusable))


def _find_faults(agent: Agent, proposal: ProposedChange) -> list[str]:
    faults: list[Any] = []
    for tool in proposal.tools:
        schemas = find_schemas(agent.project, tool.uses)
        if missing := [name for name in tool.uses if name not in schemas]:
            return [f"{tool.name} uses {missing[0]}, which is no tool of the project."]
        # Examples are run only where the types are right.
        faults += find_type_faults(tool, schemas) or find_example_faults(tool)
    return list(map(str, faults))


def _with_scores(tried: Tried) -> ProposedChange:
    scores = {family: asdict(score) for family, score in tried.scores.items()}
    return replace(tried.proposal, evidence={**tried.proposal.evidence, "rehearsed": scores})


def _describe(read: Read, choice: Choice) -> str:
    """Return in sentences what became of the candidates."""
    unusable, broken, beaten = len(read.unusable), len(choice.broken), len(choice.beaten)
    count = unusable + broken + beaten + len(choice.chosen)
    sentences = [
        f"The language model gave {count} candidate{'' if count == 1 else 's'}; proposed: {len(choice.chosen)}."
    ]
    if unusable:
        sentences.append(f"Unusable: {unusable}. {' '.join(dict.fromkeys(read.unusable))}"[:1_000])
    if broken:
        families = sorted({family or "no family" for candidate in choice.broken for family in candidate.breaks})
        sentences.append(f"Broke recorded runs of {', '.join(families)}: {broken}.")
    if beaten:
        sentences.append(f"Beaten by another in every family: {beaten}.")
    return " ".join(sentences)
