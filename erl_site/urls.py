"""The root URL configuration."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from desk.urls import desk_page
from desk.urls import urlpatterns as desk_pages
from erl_site.diagnosis.page import health_page
from erl_site.sign_in.views import second_factor
from erl_site.web import views
from memory.api import documentation
from memory.intake.trace_views import LogView, MetricView, TraceView
from memory.mcp.views import McpView

admin.autodiscover()  # the settings leave it to this module
admin.site.site_title = admin.site.site_header = "ERL"
admin.site.empty_value_display = "–"
admin.site.site_url = None  # no "View site" link
admin.site.enable_nav_sidebar = False  # desk/shell/navigation.py has the navigation

_HEALTH = desk_page("health/", health_page, "health")

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("admin/second-factor/", second_factor, name="second-factor"),
    path("admin/", ([*desk_pages, _HEALTH, *admin.site.get_urls()], "admin", admin.site.name)),
    path("health", views.health, name="health"),
    path("ready", views.ready, name="ready"),
    path("waiting", views.waiting, name="waiting"),
    path("api/schema", documentation.schema, name="api-schema"),
    path("api/docs", documentation.docs, name="api-docs"),
    path("otlp/v1/traces", TraceView.as_view(), name="otlp-traces"),
    path("otlp/v1/logs", LogView.as_view(), name="otlp-logs"),
    path("otlp/v1/metrics", MetricView.as_view(), name="otlp-metrics"),
    path("mcp", McpView.as_view(), name="mcp"),
    path("api/v1/", include("memory.urls")),
    path("api/v1/", include("reflection.api.urls")),
    path("api/v1/", include("runtime.api.urls")),
    path("api/v1/", include("evaluation.api.urls")),
]

handler400 = views.bad_request
handler403 = views.permission_denied
handler404 = views.page_not_found
handler500 = views.server_error
