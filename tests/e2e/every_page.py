"""Every page of the admin, found from what is registered there: a page somebody adds is tested unasked."""

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.urls import reverse

from memory.heuristics.models import Heuristic
from memory.runs.models import Trajectory

# Forms of Django's own widgets, which have faults of their own (dates in two fields without a label each, and others).
DJANGO_FORMS = ("auth", "memory.projectmembership")
LOOSE_PAGES = (
    "admin:index",
    "admin:inbox",
    "admin:memory_review_statistics",
    "admin:password_change",
    "admin:insights",
    "admin:coverage",
    "admin:lessons",
    "admin:person",
    "admin:retention",
    "admin:health",
    "admin:tables",
    "admin:memory_apikey_add",
    "admin:evaluation_evaluationrun_add",
)
_MOST_PAGES = 4


def list_pages(*, all_rows: bool = False) -> list[str]:
    """Return the paths of all lists; with `all_rows` every page of them."""
    found = [reverse(name) for name in LOOSE_PAGES]
    found += [reverse("admin:search"), reverse("admin:search", query={"q": "a"})]
    for model, model_admin in admin.site._registry.items():
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        pages = Paginator(model._default_manager.order_by("pk"), model_admin.list_per_page).num_pages
        found += [path] + ([f"{path}?p={n}" for n in range(2, min(pages, _MOST_PAGES) + 1)] if all_rows else [])
    return found


def row_pages(*, heuristics: list[Heuristic], trajectory: Trajectory, django_forms: bool = True) -> list[str]:
    """Return the page of one row of each kind, of these heuristics and of this run."""
    found = [_change_path(row) for row in heuristics]
    found += [reverse("admin:inbox_item", args=["lesson", row.pk]) for row in heuristics]
    in_inbox = reverse("admin:inbox_item", args=["lesson", heuristics[0].pk])
    found += [f"{in_inbox}?tab={name}" for name in ("similar", "effect", "history")]
    found += [f"{_change_path(trajectory)}?lesson={heuristics[0].pk}", f"{_change_path(trajectory)}?q=a"]
    if trajectory.steps:
        step = trajectory.steps[0]["index"]
        found.append(reverse("admin:memory_trajectory_lesson", args=[trajectory.pk, step]))
    if trajectory.retrieval_id:
        asked = {"mode": "lexical", "top_k": 5, "budget_tokens": 1000}
        found.append(reverse("admin:memory_retrieval_again", args=[trajectory.retrieval_id], query=asked))
    for model in admin.site._registry:
        row = model._default_manager.order_by("pk").first()
        skipped = not django_forms and model._meta.label_lower.startswith(DJANGO_FORMS)
        if row is not None and model not in (Heuristic, Trajectory) and not skipped:
            found.append(_change_path(row))
    return found


def _change_path(row: Any) -> str:
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return reverse(name, args=[row.pk])
