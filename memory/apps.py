"""The Django app memory."""

from django.apps import AppConfig
from django.conf import settings


class MemoryConfig(AppConfig):
    name = "memory"

    def ready(self) -> None:
        from memory.failpoints import arm_failpoints

        arm_failpoints(settings.ERL_FAILPOINTS)
