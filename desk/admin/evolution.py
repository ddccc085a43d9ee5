"""Evolutions: the list with a sentence each, and the page of one with its candidates. Nothing can be changed here."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse

from desk.shell.columns import who
from desk.shell.read_only import ReadOnlyAdmin
from evaluation.evolution.models import Evolution, EvolutionCandidate
from evaluation.reports.evolutions import draw_candidates, write_gain

SETS = {"mine": "Mine: proposed from", "gate": "Gate: judged on", "holdout": "Hold-out: measured on, once"}


@admin.register(Evolution)
class EvolutionAdmin(ReadOnlyAdmin[Evolution]):
    change_list_template = "admin/evaluation/evolutions.html"
    change_form_template = "admin/evaluation/evolution.html"
    list_display = [
        "name",
        "sentence",
        "candidate_count",
        "looks",
        who("started_by", "started by"),
        "project",
        "finished_at",
    ]
    list_filter = ["suite", "agent__name", "project", "finished_at"]
    list_select_related = ["project", "agent"]
    search_fields = ["suite", "agent__name"]
    show_full_result_count = False
    actions = None
    nothing_yet = "No agent has evolved yet. `manage.py evolve demo` runs an example, offline."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Evolution]:
        chosen = EvolutionCandidate.objects.filter(is_chosen=True).defer("adds")
        rows = super().get_queryset(request).annotate(tried=Count("candidates"))
        return rows.prefetch_related(Prefetch("candidates", queryset=chosen, to_attr="chosen"))

    @admin.display(description="evolution", ordering="finished_at")
    def name(self, evolution: Evolution) -> str:
        return str(evolution)

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
    candidates = list(evolution.candidates.select_related("change").order_by("number"))
    chosen = next((each for each in candidates if each.is_chosen), None)
    families = sorted({family for counts in evolution.sets.values() for family in counts})
    return {
        "evolution": evolution,
        "title": str(evolution),
        "sentence": write_gain(evolution, chosen),
        "chart": draw_candidates(candidates),
        "candidates": [
            {
                "row": each,
                "families": _list_families(each),
                "tools": each.adds.get("tools", []),
                "texts": [(name, value) for name, value in each.adds.items() if name != "tools"],
            }
            for each in candidates
        ],
        "measured": _list_measured(evolution.measured),
        "families": [
            {"family": family, "counts": [evolution.sets[name].get(family, 0) for name in SETS]} for family in families
        ],
        "sets": list(SETS.values()),
        "controls": _list_controls(evolution.controls),
        "chosen_sha256": chosen.sha256 if chosen is not None else "",
    }


def _list_families(candidate: EvolutionCandidate) -> list[str]:
    return [
        f"{family}: {each['solved']} of {each['tasks']} solved, {each['tokens'] / each['tasks']:,.0f} tokens"
        for family, each in candidate.scores.items()
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


def _list_controls(controls: dict[str, Any]) -> list[str]:
    """Return what must not help, and whether it did, in sentences."""
    if not controls:
        return []
    shuffled, itself, poisoned = controls["shuffled"], controls["itself"], controls["poisoned"]
    lopsided = controls["lopsided"]
    return [
        f"Tools under each other's words: {shuffled['tried']} tried, {shuffled['promoted']} promoted.",
        f"The agent against itself: {itself['promoted']} of {itself['times']} promoted.",
        f"Tools that also send data away: {poisoned['stopped']} of {poisoned['tried']} stopped.",
        (
            f"Changes that help one family and harm another: {lopsided['harmful']} of {lopsided['tried']} break tasks "
            f"of the hold-out, {lopsided['stopped']} of these were stopped."
        ),
    ]
