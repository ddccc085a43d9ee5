"""Periodic work without a scheduler (reliability B7)."""

from celery import current_app
from django.conf import settings

ENTRIES = ("often", "every_minute", "every_hour")


def run_periodic_work() -> None:
    """Do now, in this process, what the scheduler would send to the workers, but for what takes minutes."""
    # Only workers have loaded the tasks by themselves.
    current_app.loader.import_default_modules()
    for name in ENTRIES:
        current_app.tasks[str(settings.CELERY_BEAT_SCHEDULE[name]["task"])]()
