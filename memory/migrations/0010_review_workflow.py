"""Order the queue by effect, claim, remember what was read, members of projects, two reviewers."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import pgvector.django.halfvec
import pgvector.django.sparsevec
from django.conf import settings
from django.db import migrations, models

# Rows that older code or plain SQL inserts need values too.
DEFAULTS = """
ALTER TABLE memory_heuristic ALTER COLUMN review_priority SET DEFAULT 0, ALTER COLUMN review_basis SET DEFAULT '{}',
    ALTER COLUMN risk_flags SET DEFAULT '{}';
ALTER TABLE memory_project ALTER COLUMN four_eyes SET DEFAULT false;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0009_servable_views"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [migrations.CreateModel(name='DeskOpening', fields=[("id", models.BigAutoField(primary_key=True, serialize=False)),("content_sha256", models.CharField(max_length=64)),("opened_at", models.DateTimeField(default=django.utils.timezone.now)),("heuristic", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="openings", to="memory.heuristic"
            )),("user", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            )),],options={'ordering': ["-opened_at"],'constraints': [models.UniqueConstraint(
                fields=("heuristic", "user", "content_sha256"), name="memory_deskopening_once"
            ),],},),migrations.CreateModel(name='ProjectMembership', fields=[("id", models.BigAutoField(primary_key=True, serialize=False)),(
                    "role",
                    models.TextField(
                        choices=[("reviewer", "Reviewer"), ("auditor", "Auditor"), ("operator", "Operator")],
                        default="reviewer",
                        help_text=(
                            "Reviewers decide, auditors look on, operators look after keys and reflections. "
                            "All may read."
                        ),
                    ),
                ),("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("project", models.ForeignKey(
                blank=True,
                help_text="Empty stands for every project, those to come included.",
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="memberships",
                to="memory.project",
            )),("user", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="project_memberships",
                to=settings.AUTH_USER_MODEL,
            )),],options={'ordering': ["user", "project", "role"],'constraints': [models.CheckConstraint(
                condition=models.Q(("role__in", ["reviewer", "auditor", "operator"])),
                name="memory_membership_role_known",
            ),models.UniqueConstraint(
                fields=("user", "project", "role"), name="memory_membership_once", nulls_distinct=False
            ),],},),migrations.CreateModel(name='ReviewClaim', fields=[(
                    "heuristic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="claim",
                        serialize=False,
                        to="memory.heuristic",
                    ),
                ),("claimed_at", models.DateTimeField(default=django.utils.timezone.now)),("expires_at", models.DateTimeField()),("user", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            )),],options={'ordering': ["-claimed_at"],'constraints': [models.CheckConstraint(
                condition=models.Q(("expires_at__gte", models.F("claimed_at"))),
                name="memory_reviewclaim_ends_after_start",
            ),],},),migrations.CreateModel(name='SavedFilter', fields=[("id", models.BigAutoField(primary_key=True, serialize=False)),("name", models.CharField(max_length=60)),("query", models.CharField(max_length=1000)),("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("user", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            )),],options={'ordering': ["name"],'constraints': [models.CheckConstraint(
                condition=models.Q(("name", ""), _negated=True), name="memory_savedfilter_name_not_blank"
            ),models.UniqueConstraint(fields=("user", "name"), name="memory_savedfilter_name_once"),],},),migrations.CreateModel(name='TaskVector', fields=[(
                    "trajectory",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="memory.trajectory",
                    ),
                ),("vector", pgvector.django.halfvec.HalfVectorField(null=True)),("terms", pgvector.django.sparsevec.SparseVectorField(null=True)),(
                    "meaning_weight",
                    models.FloatField(help_text="What meaning counts beside words, 0–1; long tasks blur."),
                ),("recorded_at", models.DateTimeField(help_text="When the run was recorded.")),("embedding_model", models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="memory.embeddingmodel",
            )),("project", models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.project"
            )),],options={'ordering': ["-recorded_at"],'indexes': [models.Index(fields=["project", "-recorded_at"], name="memory_taskvector_recent"),],},),migrations.RemoveConstraint(
            model_name="review",
            name="memory_review_decision_known",
        ),migrations.AddField(
            model_name="heuristic",
            name="prioritised_at",
            field=models.DateTimeField(editable=False, null=True),
        ),migrations.AddField(
            model_name="heuristic",
            name="review_basis",
            field=models.JSONField(default=dict, editable=False, help_text="What the priority was made of."),
        ),migrations.AddField(
            model_name="heuristic",
            name="review_priority",
            field=models.FloatField(
                default=0, editable=False, help_text="Expected effect of deciding on it; the queue's order."
            ),
        ),migrations.AddField(
            model_name="heuristic",
            name="risk_flags",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(),
                default=list,
                editable=False,
                help_text="Codes of what the checks found in it.",
                size=None,
            ),
        ),migrations.AddField(
            model_name="project",
            name="archived_at",
            field=models.DateTimeField(
                blank=True,
                help_text="From then on its lessons wait for no decision. What is served stays served.",
                null=True,
            ),
        ),migrations.AddField(
            model_name="project",
            name="four_eyes",
            field=models.BooleanField(
                default=False,
                help_text="Two different people have to approve the same words before agents get them.",
                verbose_name="two reviewers",
            ),
        ),migrations.AlterField(
            model_name="review",
            name="decision",
            field=models.TextField(
                choices=[
                    ("approve", "Approve"),
                    ("first_approval", "First approval"),
                    ("edit", "Edit"),
                    ("reject", "Reject"),
                    ("retire", "Retire"),
                    ("quarantine", "Quarantine"),
                    ("merge", "Merge"),
                    ("undo", "Undo"),
                    ("reflect_again", "Another reflection"),
                ]
            ),
        ),migrations.AddIndex(
            model_name="heuristic",
            index=models.Index(
                condition=models.Q(("status", "proposed")),
                fields=["project", "-review_priority", "-created_at", "-id"],
                name="memory_heuristic_by_effect",
            ),
        ),migrations.AddIndex(
            model_name="heuristic",
            index=models.Index(
                models.OrderBy(models.F("prioritised_at"), nulls_first=True),
                condition=models.Q(("status", "proposed")),
                name="memory_heuristic_to_order",
            ),
        ),migrations.AddConstraint(
            model_name="review",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "decision__in",
                        [
                            "approve",
                            "first_approval",
                            "edit",
                            "reject",
                            "retire",
                            "quarantine",
                            "merge",
                            "undo",
                            "reflect_again",
                        ],
                    )
                ),
                name="memory_review_decision_known",
            ),
        ),migrations.RunSQL(DEFAULTS, migrations.RunSQL.noop),]
