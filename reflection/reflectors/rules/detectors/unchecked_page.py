"""A page was committed to although it was over the task's limit, or did not show what the task asks for."""

import re

from reflection.reflectors.rules.detectors.labels import find_commit, way_back
from reflection.reflectors.rules.finding import Finding
from reflection.reflectors.rules.offers import Press, content_words, find_presses
from reflection.reflectors.rules.run_view import RunView
from reflection.reflectors.rules.wording import code, listed

MIN_MISSING_WORDS = 3
MIN_MISSING_SHARE = 0.3

_LIMIT = re.compile(
    r"(?:lower|less|cheaper|under|below|at most|no more than|not exceed(?:ing)?|up to|maximum(?: of)?|within"
    r"|budget(?: of)?)"
    r"(?: than| of)?\s*(?:[$€£]\s?)?(\d[\d,]*(?:\.\d+)?)\s*(dollars?|usd|euros?|eur|pounds?|[$€£])?",
    re.I,
)
_PRICE = re.compile(r"\bprice:?\s*[$€£]\s?(\d[\d,]*(?:\.\d+)?)", re.I)


def find(run: RunView) -> list[Finding]:
    """Look at the page on which the last label was taken."""
    presses = find_presses(run)
    commit = find_commit(run, presses) if presses else None
    if commit is None or not run.failed:
        return []
    return [*_over_limit(run, commit), *_unconfirmed(run, presses, commit)]


def _over_limit(run: RunView, commit: Press) -> list[Finding]:
    limit, price = _limit_in(run.episode.task), _PRICE.search(commit.page.text)
    if limit is None or price is None or float(price[1].replace(",", "")) <= limit:
        return []
    last = f'{code(commit.call.name)} with "{commit.label}"'
    return [
        Finding(
            rule="unchecked_page",
            trigger=f"When about to call {last} and the task sets a limit on the price",
            guideline=(
                "Compare the price on the page with the limit in the task, number against number. If it is "
                "higher, go back"
                f"{way_back(commit)} and open a result whose price is within the limit."
            ),
            avoid="Taking the price for settled because the result looks right otherwise.",
            rationale=(
                f"The page at step {commit.page.index} showed a price above the limit the task sets; the run still "
                "went on "
                f'to "{commit.label}" at step {commit.call.index}. {run.ending}'
            ),
            polarity="avoid",
            confidence=0.9,
            citations=(
                run.cite(run.episode.steps[commit.page.index - 1], price[0]),
                run.cite(commit.call.step, commit.call.answer),
            ),
            tools=(commit.call.name,),
        )
    ]


def _unconfirmed(run: RunView, presses: tuple[Press, ...], commit: Press) -> list[Finding]:
    """The page shows little of what the task asks for, and its further views stayed closed."""
    wanted = content_words(_LIMIT.sub(" ", run.episode.task))
    missing = wanted - content_words(commit.page.text)
    pressed = {press.label for press in presses}
    in_groups = {label for labels in commit.page.groups.values() for label in labels}
    views = [
        label
        for label in commit.page.labels
        if label not in pressed | in_groups and label.isalpha() and not way_back_label(label)
    ]
    if len(missing) < max(MIN_MISSING_WORDS, MIN_MISSING_SHARE * len(wanted)) or not views:
        return []
    last = f'{code(commit.call.name)} with "{commit.label}"'
    offered = listed([f'"{view}"' for view in views[:3]])
    return [
        Finding(
            rule="unchecked_page",
            trigger=f"When about to call {last} and words of the task are missing from the page's title and options",
            guideline=(
                f"Open the views the page offers ({offered}) with {code(commit.call.name)} and look for the "
                f"missing words. If they are not there, go back{way_back(commit)} "
                "and open another result, or search with those words, before deciding."
            ),
            avoid="Taking the first result that was opened without having seen the properties the task asks for.",
            rationale=(
                f"{len(missing)} of the {len(wanted)} words that matter in the task do not occur on the page of step "
                f"{commit.page.index} ({', '.join(sorted(missing)[:4])}); none of its further views was opened before "
                f'"{commit.label}". {run.ending}'
            ),
            polarity="avoid",
            confidence=0.55,
            citations=(
                run.cite(run.episode.steps[commit.page.index - 1]),
                run.cite(commit.call.step, commit.call.answer),
            ),
            tools=(commit.call.name,),
        )
    ]


def way_back_label(label: str) -> bool:
    return bool(re.search(r"\b(back|prev|previous|next|return|home|search)\b", label, re.I))


def _limit_in(task: str) -> float | None:
    """Return the highest amount of money the task allows, None when it names none."""
    amounts = [float(m[1].replace(",", "")) for m in _LIMIT.finditer(task) if m[2] or re.search(r"[$€£]", m[0])]
    return max(amounts) if amounts else None
