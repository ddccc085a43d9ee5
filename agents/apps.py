from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"

    def ready(self) -> None:
        from agents.text_columns import TEXT_COLUMNS
        from memory.trust.text_columns import add_text_columns

        add_text_columns(TEXT_COLUMNS)
