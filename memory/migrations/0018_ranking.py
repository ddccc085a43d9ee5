"""What ranking needs: quotas by polarity, what lessons proved to be worth, and what an answer considered."""

from typing import Any

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import memory.ids

FORWARD = """
CREATE OR REPLACE VIEW servable_heuristic AS
    SELECT r.id, r.project_id, r.heuristic_id, r.number, r.content_sha256, r.trigger, r.guideline, r.avoid, r.not_when,
           r.rationale, r.polarity, r.scope, r.task_id, r.tags, r.source_task, h.support, h.usefulness, h.client
    FROM memory_heuristicrevision r JOIN memory_heuristic h ON h.id = r.heuristic_id
    WHERE r.served AND r.approved_sha256 = r.content_sha256;

-- What a lesson is worth is part of every answer; a change of less than a twentieth is not worth a new search.
CREATE TRIGGER memory_usefulness_changed AFTER UPDATE OF usefulness ON memory_heuristic
    FOR EACH ROW WHEN (round(OLD.usefulness * 20) IS DISTINCT FROM round(NEW.usefulness * 20))
    EXECUTE FUNCTION memory_row_changed();
"""
REVERSE = """
DROP TRIGGER memory_usefulness_changed ON memory_heuristic;
DROP VIEW servable_heuristic;
CREATE VIEW servable_heuristic AS
    SELECT r.id, r.project_id, r.heuristic_id, r.number, r.content_sha256, r.trigger, r.guideline, r.avoid, r.not_when,
           r.rationale, r.polarity, r.scope, r.task_id, r.tags, r.source_task, h.support
    FROM memory_heuristicrevision r JOIN memory_heuristic h ON h.id = r.heuristic_id
    WHERE r.served AND r.approved_sha256 = r.content_sha256;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_serving') THEN
        GRANT SELECT ON servable_heuristic TO erl_serving;
    END IF;
END $$;
"""


def let_operators_set_quotas(apps: Any, schema_editor: Any) -> None:
    """Give the groups what they need to see and set quotas. Nobody loses a permission."""
    kind, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label="memory", model="polarityquota"
    )
    for action, groups in (
        ("view", ("Auditor", "Reviewer", "Operator")),
        ("add", ("Operator",)),
        ("change", ("Operator",)),
        ("delete", ("Operator",)),
    ):
        permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
            content_type=kind, codename=f"{action}_polarityquota", defaults={"name": f"Can {action} polarity quota"}
        )
        for group in apps.get_model("auth", "Group").objects.filter(name__in=groups):
            group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0017_usefulness"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.CreateModel(name='PolarityQuota', fields=[("id", models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),(
                    "task_id",
                    models.TextField(
                        blank=True,
                        default="",
                        help_text="Empty stands for every family without a quota of its own.",
                        verbose_name="task family",
                    ),
                ),(
                    "max_works_share",
                    models.FloatField(
                        blank=True,
                        help_text="Most lessons of what works, as a share of the answer from 0 to 1.",
                        null=True,
                    ),
                ),(
                    "max_avoid_share",
                    models.FloatField(
                        blank=True,
                        help_text="Most lessons of what to avoid, as a share of the answer from 0 to 1.",
                        null=True,
                    ),
                ),("set_by", models.TextField(default="", editable=False)),("set_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),(
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="polarity_quotas",
                        to="memory.project",
                    ),
                ),],options={'ordering': ["project", "task_id"],'constraints': [models.UniqueConstraint(fields=["project", "task_id"], name="memory_quota_one_a_family"),models.CheckConstraint(
                condition=(
                    models.Q(max_works_share__isnull=True) | models.Q(max_works_share__gte=0, max_works_share__lte=1)
                )
                & (models.Q(max_avoid_share__isnull=True) | models.Q(max_avoid_share__gte=0, max_avoid_share__lte=1)),
                name="memory_quota_0_to_1",
            ),],},),migrations.AddField(
            model_name="retrieval",
            name="considered_ids",
            field=django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None),
        ),migrations.AddField(
            model_name="retrieval",
            name="considered_scores",
            field=django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), default=list, size=None),
        ),migrations.AddField(
            model_name="retrieval",
            name="subtasks",
            field=django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
        ),migrations.RunSQL(FORWARD, REVERSE),migrations.RunPython(let_operators_set_quotas, migrations.RunPython.noop),]
