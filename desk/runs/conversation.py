"""A run as a conversation: the agent's thoughts, calls and messages, and the answers it got."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.safestring import SafeString
from django.utils.text import Truncator

from desk.shell.markdown import indent_json, looks_marked, render_markdown
from memory.effects.models import HeuristicFeedback
from memory.effects.outcomes import OutcomeCount, count_by_heuristic
from memory.heuristics.models import Evidence, Heuristic
from memory.redaction.visible_text import show_text
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory

FOLD_CHARS = 1_200  # longer texts are folded
_PEEK_CHARS = 120
_GIST_CHARS = 60
_SECOND_MS = 1000
_TOKEN_NAMES = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "input", "output")
_MARKED = frozenset({"thought", "said", "observation"})  # errors and calls are shown as they are
_SPEECH = frozenset({"respond", "reply", "say", "message", "send_message", "answer", "final_answer", "finish"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A stretch of a text; `found` where it is what was searched for."""

    text: str
    found: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownPassage:
    """One text of a step. `peek` is shown while it is folded; "" for a text short enough not to fold."""

    kind: str
    label: str
    parts: tuple[Part, ...]
    length: int
    peek: str
    found: bool
    markup: SafeString | None = None  # the same as HTML, where it is Markdown and nothing is searched for


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadStep:
    """One turn: the agent's side, then what it got back. `gist` is one line of it, `cost` its tokens and time."""

    index: int
    gist: str
    cost: str
    tool: str
    agent: tuple[ShownPassage, ...]
    answer: tuple[ShownPassage, ...]
    failed: bool
    cited: bool
    quotes: tuple[str, ...]
    matches: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenHeuristic:
    """A lesson the run was given, what the run did with it, and how all runs ended that were given it."""

    heuristic_id: UUID
    heuristic: Heuristic | None
    verdict: str
    outcome: OutcomeCount


def read_steps(trajectory: Trajectory, *, cited: list[Evidence], query: str) -> list[ReadStep]:
    """Return the steps for the page, those in `cited` marked and what is searched for set apart."""
    quotes: dict[int, list[str]] = {}
    for item in cited:
        if item.first_step is not None and item.last_step is not None:
            for index in range(item.first_step, item.last_step + 1):
                quotes.setdefault(index, [])
            if item.quote:
                quotes[item.first_step].append(item.quote)
    return [_read_step(raw, quotes, query) for raw in trajectory.steps]


def find_given_heuristics(trajectory: Trajectory) -> list[GivenHeuristic]:
    """Return the lessons in the block of the run's answer, in order. Three queries, or none."""
    retrieval: Retrieval | None = trajectory.retrieval
    if retrieval is None or not retrieval.injected_ids:
        return []
    ids = list(retrieval.injected_ids)
    rows = Heuristic.objects.filter(project=trajectory.project_id).select_related("current_revision").in_bulk(ids)
    feedbacks = HeuristicFeedback.objects.filter(heuristic__in=ids, trajectory=trajectory)
    verdicts = {feedback.heuristic_id: feedback.get_verdict_display() for feedback in feedbacks}
    outcomes = count_by_heuristic([trajectory.project_id], heuristic_ids=ids)
    return [
        GivenHeuristic(heuristic_id=id, heuristic=rows.get(id), verdict=verdicts.get(id, ""), outcome=outcomes[id])
        for id in ids
    ]


def _read_step(raw: dict[str, Any], quotes: dict[int, list[str]], query: str) -> ReadStep:
    action = raw.get("action") or {}
    name, arguments = action.get("name", ""), action.get("arguments") or {}
    speech = name.lower() in _SPEECH and len(arguments) == 1 and isinstance(next(iter(arguments.values())), str)
    text = next(iter(arguments.values())) if speech or set(arguments) == {"input"} else ""
    if not text and arguments:
        text = json.dumps(arguments, ensure_ascii=False, indent=1)
    agent = (
        _passage("thought", "Thought", raw.get("thought", ""), query),
        _passage("said" if speech else "call", "Says" if speech else "Calls", str(text), query),
    )
    answer = (
        _passage("error", "Error", raw.get("error", ""), query),
        _passage("observation", "Answer", raw.get("observation", ""), query),
    )
    index, tool = raw["index"], show_text(name)
    is_found = any(passage.found for passage in (*agent, *answer) if passage)
    first = next((passage for passage in (*agent, *answer) if passage), None)
    gist = tool if tool and not speech else "".join(part.text for part in first.parts) if first else ""
    return ReadStep(
        index=index,
        gist=Truncator(" ".join(gist.split())).chars(_GIST_CHARS),
        cost=_describe_cost(raw.get("metadata") or {}),
        tool="" if speech else tool,
        agent=tuple(passage for passage in agent if passage),
        answer=tuple(passage for passage in answer if passage),
        failed=bool(raw.get("error")),
        cited=index in quotes,
        quotes=tuple(quotes.get(index, ())),
        matches=is_found or bool(query and query.casefold() in tool.casefold()),
    )


def _describe_cost(metadata: dict[str, Any]) -> str:
    """Write the tokens and the time of a step, as far as the agent recorded them with it."""
    tokens, milliseconds = _count_tokens(metadata), metadata.get("duration_ms")
    parts = [f"{tokens:,} tokens"] if tokens else []
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool) and milliseconds >= 0:
        parts.append(f"{milliseconds:,.0f} ms" if milliseconds < _SECOND_MS else f"{milliseconds / _SECOND_MS:,.1f} s")
    return " · ".join(parts)


def _count_tokens(metadata: dict[str, Any]) -> int:
    """Return the tokens of a step, by whichever names of the providers' they were logged."""
    # Agents log tokens as a number, or as an object in the form of their provider.
    for value in (metadata.get("tokens"), metadata.get("usage")):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        if isinstance(value, dict):
            counts = {name: count for name, count in value.items() if type(count) is int and count > 0}
            total = counts.get("total_tokens") or sum(counts.get(name, 0) for name in _TOKEN_NAMES)
            if total:
                return total
    return 0


def _passage(kind: str, label: str, text: str, query: str) -> ShownPassage | None:
    if not text:
        return None
    shown = show_text(indent_json(text) or text)
    parts = _split(shown, query)
    is_found = len(parts) > 1 or parts[0].found
    peek = shown[:_PEEK_CHARS] if len(shown) > FOLD_CHARS else ""
    is_marked = not query and kind in _MARKED and looks_marked(shown) and not shown.startswith(("{", "["))
    markup = render_markdown(shown) if is_marked else None
    return ShownPassage(
        kind=kind, label=label, parts=parts, length=len(shown), peek=peek, found=is_found, markup=markup
    )


def _split(text: str, query: str) -> tuple[Part, ...]:
    """Set apart what is searched for, in any case of letters."""
    folded, wanted = text.lower(), query.lower()
    # Some letters grow in lower case, and then the positions would not fit.
    if not wanted or len(folded) != len(text):
        return (Part(text=text, found=bool(wanted) and wanted in folded),)
    parts, start = [], 0
    while (at := folded.find(wanted, start)) >= 0:
        parts += [Part(text=text[start:at], found=False), Part(text=text[at : at + len(wanted)], found=True)]
        start = at + len(wanted)
    parts.append(Part(text=text[start:], found=False))
    return tuple(part for part in parts if part.text) or (Part(text="", found=False),)
