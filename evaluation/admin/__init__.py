from evaluation.admin.evaluation_run import EvaluationRunAdmin
from evaluation.admin.evolution import EvolutionAdmin
from evaluation.admin.experiment import ExperimentAdmin
from evaluation.admin.shadow import ShadowAnswerAdmin
from evaluation.admin.trials import draw_worth
from evaluation.admin.uplift import describe_effect, draw_lesson_effect, draw_release_uplift
from evaluation.admin.verdicts import count_alarms, draw_deployment, draw_release, list_ended
from memory.admin.panels import (
    add_consequences,
    add_deployment_panel,
    add_desk_panel,
    add_figures,
    add_release_panel,
    add_release_uplift,
)
from runtime.admin.lineage import add_worth

__all__ = ["EvaluationRunAdmin", "EvolutionAdmin", "ExperimentAdmin", "ShadowAnswerAdmin"]

add_worth(draw_worth)
add_consequences(list_ended)
add_deployment_panel(draw_deployment)
add_desk_panel(draw_lesson_effect, tab="effect")
add_figures(count_alarms)
add_release_panel(draw_release)
add_release_uplift(draw_release_uplift)
add_figures(describe_effect)
