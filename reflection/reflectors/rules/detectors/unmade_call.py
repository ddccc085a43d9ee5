"""A call was written as text or only announced, or a text was sent as a command, so that nothing ran."""

import re

from memory.runs.episode import EpisodeStep
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general, times

MAX_TEXT_CHARS = 4000
MIN_PROSE = 2
_PROSE = re.compile(r"[A-Z][\w'’]{0,20},? (?:[\w'’,-]{1,30} ){3,40}[\w'’-]{1,30}\.")
_WRITTEN = re.compile(
    r"</?(?:tool_call|function_call|tool_use)>|<function=\w|<invoke name="
    r"|\{\s{0,4}\"name\":\s{0,4}\"[\w.-]{1,80}\",\s{0,4}\"(?:arguments|parameters|input)\":\s{0,4}\{"
)
_ANNOUNCED = re.compile(
    r"\b(?:I(?:'ll| will| am going to)|let(?:'s| us| me))(?: now| next| then)? "
    r"(?:\w+ (?:this|it|that|the [\w ]{1,40}?) and )?(?:try|retry|attempt|correct|fix|call|run|make|proceed|re-?run)\b",
    re.IGNORECASE,
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such texts in a failed run."""
    if not run.failed:
        return []
    written = [turn.step for turn in run.turns if _WRITTEN.search(turn.said[:MAX_TEXT_CHARS])]
    announced = _announced(run)
    prose = [call for call in run.calls if call.is_unknown and call.command and _PROSE.match(call.command.text)]
    matches = [_of_text(run, written)] if written else []
    matches += [announced] if announced else []
    return matches + ([_of_prose(run, prose)] if len(prose) >= MIN_PROSE and is_general(code(prose[0].name)) else [])


def _of_text(run: ReadRun, steps: list[EpisodeStep]) -> RuleMatch:
    return RuleMatch(
        rule="unmade_call",
        trigger="When about to call a tool, or when a message that should hold a result shows a call as text",
        guideline=(
            "Make the call itself, in the form in which earlier calls ran: what is written into a message runs "
            "nothing. If such a message came from another agent, give it the task again before you go on."
        ),
        avoid="Writing `<tool_call>` or JSON into a message, or counting on a result that such a message lacks.",
        rationale=(
            f"At step {steps[0].index} a call was written into a message{_again(len(steps))}; "
            f"no tool ran and no answer came. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.75,
        citations=tuple(run.cite(step) for step in steps[:3]),
    )


def _of_prose(run: ReadRun, calls: list[RunCall]) -> RuleMatch:
    tool = code(calls[0].name)
    return RuleMatch(
        rule="unmade_call",
        trigger=f"When there is something to explain, or nothing left to try, where every text goes to {tool}",
        guideline=(
            f"Send only commands to {tool}: it runs every text. Look at the last error of a real command and try "
            "another command; keep explanations and apologies for the final answer."
        ),
        avoid=f"Sending a sentence to {tool}, and sending it again after it was not found as a command.",
        rationale=(
            f"Sentences were sent to {tool} {times(len(calls))}, from step {calls[0].index} to step {calls[-1].index}, "
            f"and the shell looked for commands of that name. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.84,
        citations=tuple(run.cite(call.step, call.error.text) for call in calls[:3] if call.error),
        tools=(calls[0].name,),
    )


def _announced(run: ReadRun) -> RuleMatch | None:
    """Return the lesson of a call that failed, was to be made again, and was the last one of the run."""
    last = run.calls[-1] if run.calls else None
    after = [turn for turn in run.turns if last and turn.index > last.index]
    turn = next((turn for turn in after if _ANNOUNCED.search(turn.said[:MAX_TEXT_CHARS])), None)
    if last is None or last.error is None or turn is None or not is_general(code(last.label)):
        return None
    tool = code(last.label)
    return RuleMatch(
        rule="unmade_call",
        trigger=f"When {tool} has failed and it is clear what to correct",
        guideline=(
            f"Make the corrected call of {tool} at once, in the same turn. If it cannot be made, say what is missing, "
            "and give no value that no tool has returned."
        ),
        avoid="Saying that the call will be corrected, and then answering without having made it.",
        rationale=(
            f"{tool} failed at step {last.index}; at step {turn.index} the agent said what it would do next, and made "
            f"no further call. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.82,
        citations=(run.cite(last.step, last.error.text), run.cite(turn.step)),
        tools=(last.name,),
    )


def _again(count: int) -> str:
    return f", {times(count)} in this run" if count > 1 else ""
