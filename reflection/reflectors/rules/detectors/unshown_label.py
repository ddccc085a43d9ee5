"""A call failed on a label that the page before did not show."""

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general, parameter_name

MIN_VALUE_CHARS = 3


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for failing calls with a label that is not in brackets on the last page, in runs that did not succeed."""
    matches: dict[str, RuleMatch] = {}
    for call in run.calls:
        if call.error is None or call.command is not None or call.is_edit or run.succeeded:
            continue
        for path, values in call.leaves.items():
            value = values[0]
            if not isinstance(value, str) or len(value) < MIN_VALUE_CHARS or not is_general(parameter_name(path)):
                continue
            if match := _not_on_page(run, call, path, value):
                matches.setdefault(match.trigger, match)
    return list(matches.values())


def _not_on_page(run: ReadRun, call: RunCall, path: str, value: str) -> RuleMatch | None:
    """Describe a label that is not in the answer before, in runs that act on pages with labels in brackets."""
    assert call.error is not None
    if set(call.arguments) != {path}:
        return None
    before = [step for step in run.episode.steps[: call.index - 1] if step.observation and not step.error]
    if not before or f"[{value}]" in before[-1].observation:
        return None
    earlier = [c for c in run.calls if c.name == call.name and not c.error and c is not call]
    pages = [step.observation for step in run.episode.steps]
    labelled = [c for c in earlier if any(f"[{c.leaves[path][0]}]" in page for page in pages if path in c.leaves)]
    if not labelled:
        return None
    tool, parameter = code(call.name), parameter_name(path)
    return RuleMatch(
        rule="unshown_label",
        trigger=f"When about to call {tool} with a label in {parameter} that the latest page does not show in brackets",
        guideline=(
            f"Copy {parameter} exactly from the labels in brackets in the latest answer. If the one you want is not "
            "there, go to the page that has it; if no page has it, do without it."
        ),
        avoid=f'Guessing a label, or using one from an earlier page: {tool} answers "{call.error.shape}".',
        rationale=(
            f"At step {call.index} {tool} was given a label that the page before did not show, and answered "
            f'"{call.error.shape}". {run.ending}'
        ),
        polarity="avoid",
        confidence=0.6,
        citations=(run.cite(call.step, value), run.cite(call.step, call.error.text or call.answer)),
        tools=(call.name,),
    )
