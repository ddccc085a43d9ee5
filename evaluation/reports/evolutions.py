"""Say what an evolution gained, in a sentence and a plot of its candidates."""

from collections.abc import Sequence
from typing import Any

from django.template.loader import render_to_string

from evaluation.reports.geometry import Axis
from runtime.models.changes import EvaluationRow

WIDTH, LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 720, 64, 24, 20, 250, 320
CHECKED_Y = 272  # where those stand that a check stopped before the gate


def per_task(candidate: EvaluationRow, name: str) -> float | None:
    """Return the steps or tokens of a candidate per task of the gate; None where it did not come to it."""
    scores = candidate.figures["scores"].values()
    tasks = sum(score["tasks"] for score in scores)
    return sum(task_score[name] for task_score in scores) / tasks if tasks else None


def write_gain(evolution: EvaluationRow, chosen: EvaluationRow | None) -> str:
    """Return what was gained on the hold-out, such as "Candidate 9 takes 1,015 fewer tokens per task …"."""
    if chosen is None or chosen.index == 0:
        return "Nothing was gained: no candidate passed the gate, so the agent stays as it is."
    measured = evolution.figures["measured"]
    tokens, solved, success = measured["tokens"], measured["solved"], measured["success"]
    share, low, high = _share(tokens, measured["tasks"]), abs(tokens["low"]), abs(tokens["high"])
    gain = f"tokens per task ({share:.1f}%, interval {min(low, high):,.0f} to {max(low, high):,.0f})"
    tasks = f"on {measured['tasks']:,} tasks that nothing was chosen by"
    before, after = solved["before"], solved["after"]
    solves = f"solves {after:,} of them, {'as before' if before == after else f'before it was {before:,}'}"
    if success["high"] < 0:
        return f"Candidate {chosen.index} does harm: {tasks} it {solves}."
    if tokens["high"] < 0:
        return f"Candidate {chosen.index} takes {-tokens['mean']:,.0f} fewer {gain} {tasks}, and {solves}."
    if tokens["low"] > 0:
        return f"Candidate {chosen.index} takes {tokens['mean']:,.0f} more {gain} {tasks}, and {solves}."
    interval = f"[{tokens['low']:+,.0f}, {tokens['high']:+,.0f}] tokens per task"
    return f"No gain is certain: {tasks} candidate {chosen.index} takes {interval}, and {solves}."


def draw_candidates(candidates: Sequence[EvaluationRow]) -> str:
    """Return the candidates by generation as SVG: tokens per task on the gate; empty with fewer than two."""
    tokens = {candidate.index: per_task(candidate, "tokens") for candidate in candidates}
    scored = [shown for shown in candidates if tokens[shown.index] is not None]
    if len(candidates) < 2 or not scored:
        return ""
    figures = [token for token in tokens.values() if token is not None]
    low, high = min(figures), max(figures)
    axis = Axis.around(figures, start=BOTTOM, end=TOP, room=0.1, least=1.0)
    width = (WIDTH - LEFT - RIGHT) / len(candidates)
    places = {shown.index: round(LEFT + (index + 0.5) * width, 1) for index, shown in enumerate(candidates)}

    def y(value: float | None) -> float:
        return CHECKED_Y if value is None else axis.at(value)

    at = {shown.index: (places[shown.index], y(tokens[shown.index])) for shown in candidates}
    chart = {
        "dots": [_describe(shown, *at[shown.index]) for shown in candidates],
        "edges": [
            _join(at[parent], at[shown.index])
            for shown in scored
            for parent in shown.figures["parents"]
            if parent in at
        ],
        "best": _draw_best(scored, at, end=WIDTH - RIGHT),
        "generations": _list_generations(candidates, places, width),
        "ticks": [{"y": y(value), "label": f"{value:,.0f}"} for value in (low, (low + high) / 2, high)],
        "has_stopped": len(scored) < len(candidates),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "bottom": BOTTOM,
        "checked_y": CHECKED_Y,
        "label_y": HEIGHT - 26,
        "title_y": HEIGHT - 6,
    }
    return render_to_string("evaluation/candidates.svg", {"chart": chart})


def _share(tokens: dict[str, float], tasks: int) -> float:
    per_task = tokens["before"] / tasks
    return 100 * abs(tokens["mean"]) / per_task if per_task else 0.0


def _describe(candidate: EvaluationRow, x: float, y: float) -> dict[str, Any]:
    state, tokens = candidate.figures, per_task(candidate, "tokens")
    what = "kept" if not state["stopped_by"] else f"stopped by {state['stopped_by']}"
    figures = "" if tokens is None else f"{tokens:,.0f} tokens per task, look {state['look']}, "
    return {
        "x": x,
        "y": y,
        "kind": "checked" if tokens is None else "stopped" if state["stopped_by"] else "kept",
        "on_front": state["is_on_front"],
        "chosen": state["is_chosen"],
        "number": candidate.index,
        "title": f"Candidate {candidate.index}: {figures}{what}",
        "cross": f"M{x - 4},{y - 4}l8,8m0,-8l-8,8",
    }


def _join(start: tuple[float, float], end: tuple[float, float]) -> dict[str, float]:
    return {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}


def _draw_best(scored: Sequence[EvaluationRow], at: dict[int, tuple[float, float]], *, end: float) -> str:
    """Return the points of the line of the fewest tokens so far, of the candidates that were kept."""
    points: list[str] = []
    best: float | None = None
    for candidate in scored:
        tokens = per_task(candidate, "tokens")
        if candidate.figures["stopped_by"] or tokens is None or (best is not None and tokens >= best):
            continue
        x, y = at[candidate.index]
        if points:
            points.append(f"{x},{points[-1].partition(',')[2]}")
        points.append(f"{x},{y}")
        best = tokens
    return " ".join([*points, f"{end},{points[-1].partition(',')[2]}"]) if points else ""


def _list_generations(
    candidates: Sequence[EvaluationRow], places: dict[int, float], width: float
) -> list[dict[str, Any]]:
    """Return where each generation stands, and where a line parts it from the one before."""
    generations = []
    for number in sorted({candidate.figures["generation"] for candidate in candidates}):
        own = [places[candidate.index] for candidate in candidates if candidate.figures["generation"] == number]
        generations.append({"number": number, "x": (own[0] + own[-1]) / 2, "begins": own[0] - width / 2})
    return generations
