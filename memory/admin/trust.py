"""The records that prove what happened, and the emergency brake."""

from django.contrib import admin

from memory.admin.read_only import ReadOnlyAdmin
from memory.trust.models import AuditEntry, Erasure, QuarantineOrder


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin[AuditEntry]):
    project_path = "project_id"
    list_display = ["number", "project_id", "kind", "subject_id", "sha256", "created_at"]
    list_filter = ["kind", "created_at"]
    search_fields = ["sha256", "kind", "content"]
    date_hierarchy = "created_at"


@admin.register(Erasure)
class ErasureAdmin(ReadOnlyAdmin[Erasure]):
    project_path = "project_id"
    list_display = ["erased_at", "trajectory_id", "erased_by", "project_id"]
    search_fields = ["erased_by"]
    date_hierarchy = "erased_at"


@admin.register(QuarantineOrder)
class QuarantineOrderAdmin(ReadOnlyAdmin[QuarantineOrder]):
    project_path = "project_id"
    list_display = ["ordered_at", "source", "since", "reason", "retrieval_count", "ordered_by", "project_id"]
    search_fields = ["source", "reason", "ordered_by"]
    date_hierarchy = "ordered_at"
