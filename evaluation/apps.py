from django.apps import AppConfig


class EvaluationConfig(AppConfig):
    name = "evaluation"

    def ready(self) -> None:
        from evaluation.evolution.requests import AGENT_EVOLUTION
        from evaluation.experiments.of_changes import follow_experiment, start_experiment_of
        from evaluation.requests import EVALUATION
        from evaluation.shadow.jobs import SHADOW_JOBS
        from memory.events import add_listener
        from reflection.jobs.kinds import register_kind
        from runtime.changes.ladder import watch_trials

        register_kind(EVALUATION)
        register_kind(SHADOW_JOBS)
        register_kind(AGENT_EVOLUTION)
        add_listener(follow_experiment)
        watch_trials(start_experiment_of)
