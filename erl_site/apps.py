"""The wiring as a Django app."""

from django.apps import AppConfig


class ErlSiteConfig(AppConfig):
    """Make every process know the Celery application, so that `delay()` reaches our broker."""

    name = "erl_site"
    verbose_name = "ERL"

    def ready(self) -> None:
        import erl_site.celery
        import erl_site.checks  # noqa: F401
        from erl_site.monitoring.tracing import start_tracing

        start_tracing()
