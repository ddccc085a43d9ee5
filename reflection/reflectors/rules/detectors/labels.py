"""On pages that show their labels in brackets: labels that were not there, and options that were."""

import re

from reflection.reflectors.rules.finding import Finding
from reflection.reflectors.rules.offers import Page, Press, content_words, find_presses
from reflection.reflectors.rules.run_view import RunView
from reflection.reflectors.rules.wording import code, is_general, times

_BACK = re.compile(r"\b(back|prev|previous|return)\b", re.I)


def find(run: RunView) -> list[Finding]:
    """Look for refused labels, and for options that were skipped or taken before the last step."""
    presses = find_presses(run)
    if not presses:
        return []
    findings = [*_refused(run, presses)]
    if commit := find_commit(run, presses):
        findings += _options(run, presses, commit)
    return findings


def find_commit(run: RunView, presses: tuple[Press, ...]) -> Press | None:
    """Return the label that ended the run: the last call, accepted, and no option of a group."""
    last = presses[-1]
    if last.call is not run.calls[-1] or last.call.error or not last.offered:
        return None
    if _BACK.search(last.label) or len(Page(index=last.call.index, text=last.call.answer).labels) > 1:
        return None
    if any(last.label in options for options in last.page.groups.values()) or not is_general(f'"{last.label}"'):
        return None
    return last


def way_back(press: Press) -> str:
    """Return the label that leads back from a page, as a phrase, "" when there is none."""
    label = next((each for each in reversed(press.page.labels) if _BACK.search(each) and is_general(f'"{each}"')), "")
    return f' with "{label}"' if label else ""


def _refused(run: RunView, presses: tuple[Press, ...]) -> list[Finding]:
    """Labels that were not on the page, where they kept the run from its end or from choosing an option."""
    refused = [press for press in presses if press.call.error and not press.offered]
    if not refused or run.succeeded:
        return []
    commit = find_commit(run, presses)
    if commit and not _unchosen(presses, commit):
        return []  # they cost a step each and decided nothing
    first = refused[0].call
    assert first.error is not None  # only refused calls come here
    tool = code(first.name)
    guideline = f"Call {tool} only with labels that the latest page shows in brackets, copied exactly"
    if commit:
        guideline += (
            ". When the wanted option is not among them, take the closest label of its group or go back"
            f'{way_back(commit)} to another result; do not go on to "{commit.label}" with a group left unchosen.'
        )
        end = f'the run then went on to "{commit.label}" with no option chosen in a group the page offered'
        confidence = 0.75
    else:
        guideline += (
            ": an id or option as it stands, not words taken from the task or from a title. When none of them is what "
            "the task asks for, go back to the results or search with other words."
        )
        end = "the run ended without finishing its task"
        confidence = min(0.6 + 0.05 * len(refused), 0.8)
    return [
        Finding(
            rule="labels",
            trigger=(
                f"When about to call {tool} on a page that shows labels in brackets, or when it answers "
                f'"{first.error.shape}"'
            ),
            guideline=guideline,
            avoid="Making up a label, or repeating one that was just refused.",
            rationale=(
                f"{times(len(refused)).capitalize()} {tool} named a label that the page did not show and was answered "
                f'"{first.error.shape}", and {end}. {run.ending}'
            ),
            polarity=run.polarity,
            confidence=confidence,
            citations=tuple(run.cite(press.call.step, press.label) for press in refused[:3]),
            tools=(first.name,),
        )
    ]


def _options(run: RunView, presses: tuple[Press, ...], commit: Press) -> list[Finding]:
    """Compare what was chosen in each group with the labels that use the task's own words."""
    task = content_words(run.episode.task)
    chosen = _chosen(presses, commit)
    fitting = {
        group: [label for label in labels if content_words(label) and content_words(label) <= task]
        for group, labels in commit.page.groups.items()
    }
    skipped = [group for group, labels in fitting.items() if labels and not set(labels) & chosen]
    tool, last = code(commit.call.name), f'{code(commit.call.name)} with "{commit.label}"'
    trigger = f"When about to call {last} on a page that offers groups of options"
    guideline = (
        "Go through every group of options, compare its labels with the words of the task, and take the label the "
        "task "
        f"names with {tool}. Only then call {last}."
    )
    page = run.episode.steps[commit.page.index - 1]
    if skipped and run.failed:
        group = skipped[0]
        label = fitting[group][0]
        taken = next((f'took "{each}"' for each in commit.page.groups[group] if each in chosen), "chose nothing there")
        return [
            Finding(
                rule="labels",
                trigger=trigger,
                guideline=guideline,
                avoid="Leaving a group unchosen, or taking another label, while one has the task's own words.",
                rationale=(
                    f'The page at step {commit.page.index} offered "{label}" under "{group}", which the task asks '
                    "for; the "
                    f'run {taken} before "{commit.label}". {run.ending}'
                ),
                polarity="avoid",
                confidence=0.85,
                citations=(run.cite(page, f"[{label}]"), run.cite(commit.call.step, commit.call.answer)),
                tools=(commit.call.name,),
            )
        ]
    if run.succeeded and fitting and all(fitting.values()) and not skipped:
        taken_steps = [press for press in presses if press.label in chosen and press.page.index == commit.page.index]
        return [
            Finding(
                rule="labels",
                trigger=trigger,
                guideline=guideline,
                rationale=(
                    f"The page at step {commit.page.index} offered {len(fitting)} group"
                    f"{'s' if len(fitting) > 1 else ''} of options; the run took in each the label the task names "
                    "before "
                    f'"{commit.label}". {run.ending}'
                ),
                polarity="works",
                confidence=0.6,
                citations=(
                    *(run.cite(press.call.step, press.label) for press in taken_steps[:3]),
                    run.cite(commit.call.step, commit.call.answer),
                ),
                tools=(commit.call.name,),
            )
        ]
    return []


def _chosen(presses: tuple[Press, ...], commit: Press) -> set[str]:
    return {press.label for press in presses if not press.call.error and press.page.index == commit.page.index}


def _unchosen(presses: tuple[Press, ...], commit: Press) -> list[str]:
    chosen = _chosen(presses, commit)
    return [group for group, labels in commit.page.groups.items() if not set(labels) & chosen]
