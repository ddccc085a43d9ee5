from django.apps import AppConfig


class DeskConfig(AppConfig):
    """The pages on which people read and decide."""

    name = "desk"
