"""The Django app of the site."""

from django.apps import AppConfig


class ErlSiteConfig(AppConfig):
    """Loads the Celery application in every process, so that `delay()` uses the right broker."""

    name = "erl_site"
    verbose_name = "ERL"

    def ready(self) -> None:
        import erl_site.celery
        import erl_site.checks  # noqa: F401
        from erl_site.monitoring.tracing import start_tracing

        start_tracing()
