"""Evolutions: the list with a sentence each, and the page of one with its candidates. Nothing can be changed here."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, Prefetch, QuerySet
from django.http import HttpRequest

from desk.shell.columns import column, who
from desk.shell.read_only import ReadOnlyAdmin
from evaluation.models import Evolution
from evaluation.reports.evolutions import draw_candidates, per_task, write_gain
from runtime.models.changes import EvaluationRow

SETS = {"mine": "Mine: proposed from", "gate": "Gate: judged on", "holdout": "Hold-out: measured on, once"}


@admin.register(Evolution)
class EvolutionAdmin(ReadOnlyAdmin[Evolution]):
    change_list_template = "admin/evaluation/evolutions.html"
    change_form_template = "admin/evaluation/evolution.html"
    list_display = [
        "line",
        "sentence",
        "candidate_count",
        "looks",
        who("made_by", "started by"),
        "project",
        column("made_at", "finished"),
    ]
    list_filter = ["name", "agent__name", "project", "made_at"]
    list_select_related = ["project", "agent"]
    search_fields = ["name", "agent__name"]
    actions = None
    nothing_yet = "No agent has evolved yet. `manage.py evolve demo` runs an example, offline."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Evolution]:
        chosen = EvaluationRow.objects.filter(figures__is_chosen=True).defer("figures")
        rows = super().get_queryset(request).annotate(tried=Count("candidates"))
        return rows.prefetch_related(Prefetch("candidates", queryset=chosen, to_attr="chosen"))

    @admin.display(description="evolution", ordering="made_at")
    def line(self, evolution: Evolution) -> str:
        return str(evolution)

    @admin.display(description="looks")
    def looks(self, evolution: Evolution) -> int:
        return int(evolution.figures["looks"])

    @admin.display(description="what was gained")
    def sentence(self, evolution: Any) -> str:
        return write_gain(evolution, next(iter(evolution.chosen), None))

    @admin.display(description="candidates", ordering="tried")
    def candidate_count(self, evolution: Any) -> int:
        return int(evolution.tried)

    def row_context(self, request: HttpRequest, row: Evolution) -> dict[str, Any]:
        """Collect what the page shows, in a fixed number of queries."""
        figures = row.figures
        candidates = list(row.candidates.select_related("change").order_by("index"))
        chosen = next((candidate for candidate in candidates if candidate.figures["is_chosen"]), None)
        families = sorted({family for counts in figures["sets"].values() for family in counts})
        return {
            "evolution": row,
            "figures": figures,
            "title": str(row),
            "sentence": write_gain(row, chosen),
            "chart": draw_candidates(candidates),
            "candidates": [describe_candidate(candidate) for candidate in candidates],
            "measured": list_measured(figures["measured"]),
            "families": [
                {"family": family, "counts": [figures["sets"][name].get(family, 0) for name in SETS]}
                for family in families
            ],
            "sets": list(SETS.values()),
            "chosen_sha256": chosen.figures["sha256"] if chosen is not None else "",
        }


def describe_candidate(candidate: EvaluationRow) -> dict[str, Any]:
    """Return what a candidate adds, and how it did in each family of tasks."""
    scores = candidate.figures["scores"]
    return {
        "row": candidate,
        "families": [
            f"{family}: {score['solved']} of {score['tasks']} solved, {score['tokens'] / score['tasks']:,.0f} tokens"
            for family, score in scores.items()
            if score["tasks"]
        ],
        "solved": sum(score["solved"] for score in scores.values()),
        "tasks": sum(score["tasks"] for score in scores.values()),
        "tokens": per_task(candidate, "tokens"),
        "texts": [(name, value) for name, value in candidate.figures["adds"].items() if name != "tools"],
    }


def list_measured(measured: dict[str, Any]) -> list[dict[str, str]]:
    """Return steps and tokens per task before and after, with the difference."""
    tasks, solved = measured["tasks"], measured["solved"]
    mean, low, high = (f"{100 * measured['success'][edge]:+.1f}" for edge in ("mean", "low", "high"))
    rows = [
        {
            "name": "solved",
            "before": f"{solved['before']:,} of {tasks:,}",
            "after": f"{solved['after']:,} of {tasks:,}",
            "difference": f"{mean} points [{low}, {high}]",
        }
    ]
    for name, digits in (("tokens", 0), ("steps", 2)):
        figures = measured[name]
        mean, low, high = (f"{figures[edge]:+,.{digits}f}" for edge in ("mean", "low", "high"))
        rows.append(
            {
                "name": f"{name} per task",
                "before": f"{figures['before'] / tasks:,.{digits}f}",
                "after": f"{figures['after'] / tasks:,.{digits}f}",
                "difference": f"{mean} [{low}, {high}]",
            }
        )
    return rows
