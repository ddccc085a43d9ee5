"""Projects and API keys."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from memory.admin.read_only import ReadOnlyAdmin
from memory.models import ApiKey, Project
from memory.services.revoke_api_key import revoke_api_key


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin[Project]):
    list_display = ["name", "slug", "reflect_on_record", "daily_cost_budget_usd", "created_at"]
    search_fields = ["name", "slug"]
    readonly_fields = ["id", "created_at"]
    prepopulated_fields = {"slug": ["name"]}

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # a project's records go by erasure, not by one click


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin[ApiKey]):
    """Keys are made by `manage.py create_api_key`, which shows the secret once; here they are seen and revoked."""

    list_display = ["client", "prefix", "project", "scopes", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = ["project", "revoked_at"]
    list_select_related = ["project"]
    search_fields = ["client", "prefix"]
    exclude = ["secret_sha256"]
    actions = ["revoke"]

    @admin.action(description="Revoke the selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        for key in queryset:
            revoke_api_key(key)
            messages.success(request, f"The key {key} is revoked; it stops working within 5 seconds.")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.change_apikey")
