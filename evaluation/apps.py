from django.apps import AppConfig


class EvaluationConfig(AppConfig):
    name = "evaluation"

    def ready(self) -> None:
        from evaluation.requests import EVALUATION
        from reflection.jobs.kinds import register_kind

        register_kind(EVALUATION)
