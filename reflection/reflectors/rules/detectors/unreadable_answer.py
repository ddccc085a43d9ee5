"""A framework could not read what the agent wrote: the form of its answers was wrong, not their content."""

import re
from dataclasses import dataclass

from memory.runs.episode import EpisodeStep
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun
from reflection.reflectors.rules.wording import times

MIN_TIMES = 3  # of a mistake that was mended each time
START_CHARS = 300  # in which a framework says it; further on, a text may quote it


@dataclass(frozen=True, kw_only=True, slots=True)
class _FormOfAnswer:
    """What frameworks say of answers in the wrong form, and the lesson."""

    said: re.Pattern[str]
    trigger: str
    guideline: str
    avoid: str


# In the words of LangChain, CrewAI, LlamaIndex, smolagents, SWE-agent and mini-swe-agent; the first that fits counts.
_FORMS = (
    _FormOfAnswer(
        said=re.compile(
            r"both a final answer and a parse-?able action|both perform Action and give a Final Answer", re.IGNORECASE
        ),
        trigger="When about to write an action and the final answer",
        guideline=(
            "Write only one of them: an action first, and the final answer in a message of its own once the action "
            "has been answered."
        ),
        avoid="Writing the final answer below an action, or making up the answer of a tool.",
    ),
    _FormOfAnswer(
        said=re.compile(
            r"Could not parse tool input|arguments`? (?:is|are|were) not (?:a )?valid JSON"
            r"|JSON blob you used is invalid|Action Input is not a valid key, value"
            r"|(?:failed to parse|unable to parse|error parsing) (?:tool|function)[\w ]{0,12} arguments",
            re.IGNORECASE,
        ),
        trigger="When about to call a tool whose arguments are written as JSON",
        guideline=(
            "Write the arguments as one JSON object with the names of the parameters. Inside a text, write a line "
            r"break as `\n` and a quotation mark as `\"`."
        ),
        avoid="Sending bare code or text where the JSON object belongs.",
    ),
    _FormOfAnswer(
        said=re.compile(
            r"code snippet is invalid, because the regex pattern|always provide EXACTLY ONE (?:action|bash|code)"
            r"|must always include one discussion and one command|No code block found in"
            r"|exactly one (?:bash )?code block",
            re.IGNORECASE,
        ),
        trigger="When about to answer in this environment, which runs the code block of each answer",
        guideline=(
            "Put exactly one block of code into every answer, between the marks that the prompt asks for. If the work "
            "is done, say so with the command that the prompt names, inside such a block."
        ),
        avoid="Answering in sentences alone, or with several blocks.",
    ),
    _FormOfAnswer(
        said=re.compile(
            r"Could not parse LLM output|Invalid Format: (?:I )?miss(?:ed|ing) (?:the )?'Action"
            r"|Could not parse output\. Please follow|output was not formatted correctly"
            r"|(?:no|missing) (?:valid )?action (?:was )?found in (?:the |your )?(?:output|response|message)",
            re.IGNORECASE,
        ),
        trigger="When about to answer in this environment, where a program reads every answer",
        guideline=(
            "Write every answer in the form that the prompt asks for, with its marks such as `Action:` or "
            "`Final Answer:`: the program reads no other text, not even a question or an apology."
        ),
        avoid="Answering in plain sentences, even if the task says that no action is needed.",
    ),
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such messages in a failed run that ended with one, or had several."""
    if not run.failed:
        return []
    refused: dict[str, list[EpisodeStep]] = {}
    forms = {form.trigger: form for form in _FORMS}
    for step in run.episode.steps:
        texts = (step.error[:START_CHARS], step.observation[:START_CHARS])
        if form := next((form for form in _FORMS if any(map(form.said.search, texts))), None):
            refused.setdefault(form.trigger, []).append(step)
    last = run.episode.steps[-1] if run.episode.steps else None
    return [
        _make_match(run, forms[trigger], steps)
        for trigger, steps in refused.items()
        if steps[-1] is last or len(steps) >= MIN_TIMES
    ]


def _make_match(run: ReadRun, form: _FormOfAnswer, steps: list[EpisodeStep]) -> RuleMatch:
    ends = steps[-1] is run.episode.steps[-1]
    return RuleMatch(
        rule="unreadable_answer",
        trigger=form.trigger,
        guideline=form.guideline,
        avoid=form.avoid,
        rationale=(
            f"At step {steps[0].index} what the agent wrote could not be read"
            f"{f'; this happened {times(len(steps))}' if len(steps) > 1 else ''}"
            f"{', and the run ended with it' if ends else ''}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.85,
        citations=tuple(
            run.cite(step, _line_of(step, form)) for step in ((steps[0],) if len(steps) == 1 else (steps[0], steps[-1]))
        ),
    )


def _line_of(step: EpisodeStep, form: _FormOfAnswer) -> str:
    lines = (*step.error.splitlines(), *step.observation.splitlines())
    return next((line.strip() for line in lines if form.said.search(line)), "")
