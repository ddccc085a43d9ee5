"""A person asked for the cheapest option; the prices in the answers show whether it was taken."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reflection.reflectors.rules.finding import Finding
from reflection.reflectors.rules.run_view import Call, RunView
from reflection.reflectors.rules.tool_names import is_change, is_read, is_sum
from reflection.reflectors.rules.wording import code

_CHEAPEST = re.compile(r"\b(second[ -]cheapest|cheapest|lowest[ -](?:price|cost|fare)|least expensive)\b", re.I)
_PRICES = re.compile(r"price|cost|fare|amount|fee", re.I)
_STOCK = re.compile(r"avail|seat|stock|quantity|left", re.I)


@dataclass(frozen=True, kw_only=True)
class _Option:
    """One way to fulfil the request: its parts, and what it costs altogether."""

    call: Call
    ids: frozenset[str]
    total: float
    parts: int


def find(run: RunView) -> list[Finding]:
    """Compare the option an accepted change took with the others that were found."""
    asked = _CHEAPEST.search(run.heard_before(len(run.episode.steps) + 1))
    change = next((c for c in reversed(run.calls) if is_change(c.name) and not c.error), None)
    if asked is None or change is None or not (run.failed or run.succeeded):
        return []
    rank = 1 if asked[0].lower().startswith("second") else 0
    options = sorted(_options(run, change), key=lambda option: option.total)
    taken = {str(value) for values in change.leaves.values() for value in values}
    chosen = next((option for option in options if option.ids <= taken), None)
    totals = sorted({option.total for option in options})
    if chosen is None or len(totals) < rank + 2 or max(option.parts for option in options) < 2:
        return []
    right = chosen.total == totals[rank]
    sums = next((c for c in run.calls if is_sum(c.name) and chosen.call.index < c.index < change.index), None)
    if run.failed and not right:
        return [_finding(run, asked[0], change, chosen, sums, polarity="avoid")]
    if run.succeeded and right and sums:
        return [_finding(run, asked[0], change, chosen, sums, polarity="works")]
    return []


def _finding(run: RunView, word: str, change: Call, chosen: _Option, sums: Call | None, *, polarity: str) -> Finding:
    search = code(chosen.call.name)
    reckon = f" with {code(sums.name)}" if sums else ""
    if polarity == "avoid":
        story = f"by its total, the option that {code(change.name)} took at step {change.index} was not that one"
    else:
        story = (
            f"the totals were worked out{reckon} before {code(change.name)} at step {change.index} took the right one"
        )
    turn = next((turn for turn in run.turns if word in turn.heard), None)
    return Finding(
        rule="best_option",
        trigger=f"When the user asks for the cheapest of the options that {search} returns, and options have parts",
        guideline=(
            "For every option add up the prices of all its parts in the class that was asked for, leave out those "
            "that are "
            "sold out, and order the options by that total before naming one. Then pass exactly that option's "
            "parts to "
            f"{code(change.name)}."
        ),
        avoid="Naming an option as the cheapest after looking at its first part, or at the first options of the list.",
        rationale=f"The user asked for the {word.lower()} option; {story}. {run.ending}",
        polarity=polarity,
        confidence=0.85 if polarity == "avoid" else 0.6,
        citations=(
            *((run.cite(turn.step, word),) if turn else ()),
            run.cite(chosen.call.step),
            *((run.cite(sums.step),) if sums and polarity == "works" else ()),
            run.cite(change.step),
        ),
        tools=(chosen.call.name, change.name),
    )


def _options(run: RunView, change: Call) -> Iterator[_Option]:
    """Read the options in the answers before a change, priced by the class the change asks for."""
    wanted = {value for values in change.leaves.values() for value in values if isinstance(value, str)}
    for call in run.calls:
        if call.error or call.index > change.index or not is_read(call.name):
            continue
        try:
            answer = json.loads(call.answer)
        except (ValueError, RecursionError):
            continue
        if not isinstance(answer, list):
            continue
        for entry in answer:
            parts = entry if isinstance(entry, list) else [entry]
            prices = [_price(part, wanted) for part in parts]
            ids = [_id(part) for part in parts]
            if prices and all(price is not None for price in prices) and all(ids):
                total = sum(price for price in prices if price is not None)
                yield _Option(call=call, ids=frozenset(ids), total=total, parts=len(parts))


def _price(part: Any, wanted: set[str]) -> float | None:
    """Return what one part costs in the wanted class, None where that is unknown or sold out."""
    if not isinstance(part, dict):
        return None
    price: float | None = None
    for name, value in part.items():
        figure = next((value[key] for key in value if key in wanted), None) if isinstance(value, dict) else value
        if not isinstance(figure, int | float) or isinstance(figure, bool):
            continue
        if _PRICES.search(name):
            price = float(figure)
        elif _STOCK.search(name) and figure <= 0:
            return None
    return price


def _id(part: Any) -> str:
    """Return the first member of a part that reads like its number."""
    if isinstance(part, dict):
        for name, value in part.items():
            if re.search(r"number|(^|_)id$|code|sku", name) and isinstance(value, str):
                return value
    return ""
