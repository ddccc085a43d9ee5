"""Evolutions: the list with a sentence each, and the page of one with its candidates. Nothing can be changed here."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse

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
        "named",
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
    show_full_result_count = False
    actions = None
    nothing_yet = "No agent has evolved yet. `manage.py evolve demo` runs an example, offline."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Evolution]:
        chosen = EvaluationRow.objects.filter(figures__is_chosen=True).defer("figures")
        rows = super().get_queryset(request).annotate(tried=Count("candidates"))
        return rows.prefetch_related(Prefetch("candidates", queryset=chosen, to_attr="chosen"))

    @admin.display(description="evolution", ordering="made_at")
    def named(self, evolution: Evolution) -> str:
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

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        evolution = self.get_object(request, object_id)
        context = evolution_context(evolution) if evolution is not None else {}
        return super().change_view(request, object_id, form_url, {**context, **(extra_context or {})})


def evolution_context(evolution: Evolution) -> dict[str, Any]:
    """Collect what the page of an evolution shows, in a fixed number of queries."""
    figures = evolution.figures
    candidates = list(evolution.candidates.select_related("change").order_by("index"))
    chosen = next((each for each in candidates if each.figures["is_chosen"]), None)
    families = sorted({family for counts in figures["sets"].values() for family in counts})
    return {
        "evolution": evolution,
        "figures": figures,
        "title": str(evolution),
        "sentence": write_gain(evolution, chosen),
        "chart": draw_candidates(candidates),
        "candidates": [
            {
                "row": each,
                "families": _list_families(each.figures["scores"]),
                "solved": sum(score["solved"] for score in each.figures["scores"].values()),
                "tasks": sum(score["tasks"] for score in each.figures["scores"].values()),
                "tokens": per_task(each, "tokens"),
                "texts": [(name, value) for name, value in each.figures["adds"].items() if name != "tools"],
            }
            for each in candidates
        ],
        "measured": _list_measured(figures["measured"]),
        "families": [
            {"family": family, "counts": [figures["sets"][name].get(family, 0) for name in SETS]} for family in families
        ],
        "sets": list(SETS.values()),
        "chosen_sha256": chosen.figures["sha256"] if chosen is not None else "",
    }


def _list_families(scores: dict[str, Any]) -> list[str]:
    return [
        f"{family}: {each['solved']} of {each['tasks']} solved, {each['tokens'] / each['tasks']:,.0f} tokens"
        for family, each in scores.items()
        if each["tasks"]
    ]


def _list_measured(measured: dict[str, Any]) -> list[dict[str, str]]:
    """Return steps and tokens per task before and after, with the difference."""
    tasks, rows = measured["tasks"], []
    for name, digits in (("tokens", 0), ("steps", 2)):
        each = measured[name]
        shown = [f"{each[arm] / tasks:,.{digits}f}" for arm in ("before", "after")]
        difference = f"{each['mean']:+,.{digits}f} [{each['low']:+,.{digits}f}, {each['high']:+,.{digits}f}]"
        rows.append({"name": f"{name} per task", "before": shown[0], "after": shown[1], "difference": difference})
    solved = measured["solved"]
    points = [f"{100 * measured['success'][edge]:+.1f}" for edge in ("mean", "low", "high")]
    difference = f"{points[0]} points [{points[1]}, {points[2]}]"
    shown = [f"{solved[arm]:,} of {tasks:,}" for arm in ("before", "after")]
    return [{"name": "solved", "before": shown[0], "after": shown[1], "difference": difference}, *rows]
