"""What was decided and what was answered."""

from django.contrib import admin

from memory.admin.read_only import ReadOnlyAdmin
from memory.models import Retrieval, Review


@admin.register(Review)
class ReviewAdmin(ReadOnlyAdmin[Review]):
    list_display = ["created_at", "decision", "heuristic", "reviewer", "reason", "project"]
    list_filter = ["decision", "project", "created_at"]
    list_select_related = ["heuristic__current_revision", "project"]
    search_fields = ["reviewer", "reason", "content_sha256"]
    date_hierarchy = "created_at"


@admin.register(Retrieval)
class RetrievalAdmin(ReadOnlyAdmin[Retrieval]):
    list_display = ["created_at", "task", "mode", "agent", "tokens", "degraded", "duration_ms", "project"]
    list_filter = ["mode", "project", "created_at"]
    list_select_related = ["project"]
    search_fields = ["task", "request_id"]
    date_hierarchy = "created_at"
