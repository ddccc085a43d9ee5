"""Saved filters of the review queue."""

from typing import Any

from django.contrib import admin, messages
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from memory.heuristics.models import Heuristic, SavedFilter

MAX_SAVED = 30
# Offered to everyone.
SHARED = [
    ("Waiting", "status__exact=proposed"),
    ("Unclaimed", "status__exact=proposed&claim=unassigned"),
    ("Claimed by me", "status__exact=proposed&claim=mine"),
]
_NOT_FILTERS = ("p", "e", "all")  # the page, and what the admin adds to an address it did not understand


class SavedFilterViews(admin.ModelAdmin[Heuristic]):
    """Lets a person save, use and delete filters of the list."""

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("filters/save/", wrap(self.save_filter), name="memory_heuristic_save_filter"),
            path("filters/<int:filter_id>/forget/", wrap(self.forget_filter), name="memory_heuristic_forget_filter"),
            *super().get_urls(),
        ]

    def saved_filters_context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the person's saved filters, and the current one in the form it would be saved. One query."""
        given = request.GET.copy()
        for name in _NOT_FILTERS:
            given.pop(name, None)
        present = given.urlencode()
        saved = list(SavedFilter.objects.filter(user=request.user.pk)[:MAX_SAVED])
        offered = {row.query for row in saved} | {query for _, query in SHARED}
        return {
            "shared_filters": SHARED,
            "saved_filters": saved,
            "present_filter": present,
            "can_save_filter": present and present not in offered,
        }

    def save_filter(self, request: HttpRequest) -> HttpResponse:
        """Save the list's filters under a name, replacing those saved under it before."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        # PostgreSQL cannot store U+0000.
        name, query = (request.POST.get(field, "").replace("\x00", "") for field in ("name", "query"))
        name, query = name.strip()[:60], query[:1000]
        if not name:
            messages.error(request, "Enter a name for the filter.")
        elif SavedFilter.objects.filter(user=request.user.pk).exclude(name=name).count() >= MAX_SAVED:
            messages.error(request, f"You have {MAX_SAVED} saved filters. Delete one to save another.")
        else:
            try:
                with transaction.atomic():
                    SavedFilter.objects.update_or_create(user_id=request.user.pk, name=name, defaults={"query": query})
            except IntegrityError:  # saved twice at the same moment
                pass
            messages.success(request, f"Saved as “{name}”. You will find it above the list.")
        return self._back(query)

    def forget_filter(self, request: HttpRequest, filter_id: int) -> HttpResponse:
        """Delete one of the person's own filters."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        SavedFilter.objects.filter(user=request.user.pk, pk=filter_id).delete()
        return self._back(request.POST.get("query", ""))

    def _back(self, query: str) -> HttpResponse:
        address = reverse("admin:memory_heuristic_changelist")
        return HttpResponseRedirect(f"{address}?{query}" if query else address)
