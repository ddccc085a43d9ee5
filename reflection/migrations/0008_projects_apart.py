"""Reflections and what they refer to are of one project, and a reflection that ended says so (reliability C1, D12)."""

from importlib import import_module

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

_apart = import_module("memory.migrations.0026_projects_apart")

REFERENCES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "reflection_suggestion": (
        ("run_id", "reflection_consolidationrun", ""),
        ("heuristic_id", "memory_heuristic", ""),
        ("other_id", "memory_heuristic", ""),
    ),
    "reflection_suggestionevidence": (
        ("suggestion_id", "reflection_suggestion", ""),
        ("trajectory_id", "memory_trajectory", ""),
    ),
    "reflection_reflection": (("trajectory_id", "memory_trajectory", ""),),
    "reflection_proposal": (
        ("reflection_id", "reflection_reflection", ""),
        ("heuristic_id", "memory_heuristic", ""),
        ("near_id", "memory_heuristic", ""),
    ),
    "reflection_modelcall": (
        ("reflection_id", "reflection_reflection", ""),
        ("consolidation_id", "reflection_consolidationrun", ""),
    ),
}
ALONE = ("reflection_consolidationrun", "reflection_dailyspend")


class Migration(migrations.Migration):
    dependencies = [("reflection", "0007_suggestion_evidence_project"), ("memory", "0026_projects_apart")]
    operations = [
        *(
            migrations.RunSQL(_apart.keep_apart(table, references), _apart.mix(table))
            for table, references in REFERENCES.items()
        ),
        *(migrations.RunSQL(_apart.stay(table), _apart.leave(table)) for table in (*REFERENCES, *ALONE)),
        AddConstraintNotValid(
            model_name="reflection",
            constraint=models.CheckConstraint(
                condition=models.Q(status="running") | models.Q(lease_until__isnull=True),
                name="reflection_reflection_lease_ends_with_it",
            ),
        ),
        AddConstraintNotValid(
            model_name="reflection",
            constraint=models.CheckConstraint(
                condition=models.Q(status__in=["done", "dead"], finished_at__isnull=False)
                | (~models.Q(status__in=["done", "dead"]) & models.Q(finished_at__isnull=True)),
                name="reflection_reflection_end_is_known",
            ),
        ),
    ]
