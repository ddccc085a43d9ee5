"""Mistake cards with their wordings, decisions, sightings and merges; episodes without steps."""

import django.db.models.deletion
import django.utils.timezone
import pgvector.django.halfvec
from django.conf import settings
from django.db import migrations, models

import memory.ids
import memory.projects.models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0013_served_changes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [migrations.CreateModel(name='MemoryImport', fields=[("id", models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),("content_sha256", models.CharField(max_length=64)),("outline", models.JSONField(default=dict)),("imported_by", models.TextField()),("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("project", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="memory_imports", to="memory.project"
            )),],options={'ordering': ["-created_at", "-id"],'constraints': [models.UniqueConstraint(fields=("project", "content_sha256"), name="memory_memoryimport_once"),],},),migrations.CreateModel(name='MistakeCard', fields=[("id", models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),("identity_sha256", models.CharField(editable=False, max_length=64)),("mistake_type", models.TextField()),("task_id", models.TextField(blank=True, default="", help_text="Task family.")),(
                    "worker_id",
                    models.TextField(blank=True, default="", help_text="Which agent or part of one makes it."),
                ),(
                    "status",
                    models.TextField(
                        choices=[
                            ("proposed", "Proposed"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("retired", "Retired"),
                        ],
                        default="proposed",
                    ),
                ),(
                    "seen_count",
                    models.PositiveIntegerField(
                        default=0,
                        editable=False,
                        help_text="Distinct runs it was seen in, so many of a client at most, with those of cards merged into it.",
                    ),
                ),(
                    "ranked_count",
                    models.PositiveIntegerField(
                        default=0,
                        editable=False,
                        help_text="The count a reviewer last confirmed; it decides the place in the prompt.",
                    ),
                ),(
                    "imported_count",
                    models.PositiveIntegerField(default=0, editable=False, help_text="Counted before it came here."),
                ),("first_seen_at", models.DateTimeField(editable=False, null=True)),("last_seen_at", models.DateTimeField(editable=False, null=True)),(
                    "imported",
                    models.JSONField(
                        blank=True, default=dict, editable=False, help_text="What an imported card also said."
                    ),
                ),(
                    "client",
                    models.TextField(
                        blank=True, default="", editable=False, help_text="The API client that reported it."
                    ),
                ),("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("updated_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("first_seen", models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="memory.trajectory",
            )),("last_seen", models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="memory.trajectory",
            )),("merged_into", models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="merged_cards",
                to="memory.mistakecard",
            )),("project", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="mistake_cards", to="memory.project"
            )),],options={'ordering': ["-created_at", "-id"],'permissions': [("review_mistakecard", "Can approve, reject, retire and merge mistake cards")],'indexes': [models.Index(fields=["project", "status", "-created_at", "-id"], name="memory_mistakecard_queue"),models.Index(fields=["project", "-seen_count", "-id"], name="memory_mistakecard_frequent"),models.Index(
                condition=models.Q(("merged_into__isnull", True)),
                fields=["project", "task_id", "worker_id"],
                name="memory_mistakecard_standing",
            ),],'constraints': [models.CheckConstraint(
                condition=models.Q(("status__in", ["proposed", "approved", "rejected", "retired"])),
                name="memory_mistakecard_status_known",
            ),models.CheckConstraint(
                condition=models.Q(("mistake_type", ""), _negated=True), name="memory_mistakecard_type_not_blank"
            ),models.CheckConstraint(
                condition=models.Q(("identity_sha256__regex", "^[0-9a-f]{64}$")),
                name="memory_mistakecard_identity_is_sha256",
            ),models.UniqueConstraint(fields=("project", "identity_sha256"), name="memory_mistakecard_once"),models.CheckConstraint(
                condition=models.Q(("merged_into", models.F("id")), _negated=True),
                name="memory_mistakecard_not_into_itself",
            ),],},),migrations.CreateModel(name='MistakeCardRevision', fields=[("id", models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),("number", models.PositiveIntegerField()),("mistake_type", models.TextField()),("task_id", models.TextField(blank=True, default="")),("worker_id", models.TextField(blank=True, default="")),("bad_decision", models.TextField(blank=True, default="")),("correct_decision", models.TextField(blank=True, default="")),("lesson", models.TextField(blank=True, default="")),("content_sha256", models.CharField(default="", editable=False, max_length=64)),("served", models.BooleanField(default=False, editable=False)),("approved_sha256", models.CharField(default="", editable=False, max_length=64)),("approved_by", models.TextField(default="", editable=False)),("approved_at", models.DateTimeField(editable=False, null=True)),("created_by", models.TextField(default="", editable=False)),("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("card", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="revisions", to="memory.mistakecard"
            )),("project", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.project")),("trajectory", models.ForeignKey(
                blank=True,
                help_text="Whose words.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="memory.trajectory",
            )),],options={'ordering': ["card", "number"],'indexes': [models.Index(
                condition=models.Q(("served", True)), fields=["project", "task_id"], name="memory_cardrevision_servable"
            ),],'constraints': [models.UniqueConstraint(fields=("card", "number"), name="memory_cardrevision_number_unique"),models.UniqueConstraint(
                condition=models.Q(("served", True)), fields=("card",), name="memory_cardrevision_one_served"
            ),models.CheckConstraint(
                condition=models.Q(("bad_decision", ""), ("correct_decision", ""), ("lesson", ""), _negated=True),
                name="memory_cardrevision_says_something",
            ),models.CheckConstraint(
                condition=models.Q(
                    ("served", False),
                    models.Q(
                        ("approved_at__isnull", False),
                        ("approved_sha256", models.F("content_sha256")),
                        ("approved_sha256__regex", "^[0-9a-f]{64}$"),
                        models.Q(("approved_by", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="memory_cardrevision_served_is_approved",
            ),],},),migrations.CreateModel(name='MistakeCardReview', fields=[("id", models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),(
                    "decision",
                    models.TextField(
                        choices=[
                            ("approve", "Approve"),
                            ("reject", "Reject"),
                            ("retire", "Retire"),
                            ("merge", "Merge"),
                            ("unmerge", "Unmerge"),
                            ("confirm_count", "Confirm Count"),
                        ]
                    ),
                ),("content_sha256", models.CharField(max_length=64)),("seen_count", models.PositiveIntegerField(default=0, help_text="How often it had been seen then.")),("reason", models.TextField(blank=True, default="")),("reviewer", models.TextField(help_text="Label that outlives the account, for example user:ana.")),("request_id", models.TextField(blank=True, default="")),("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("card", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="reviews", to="memory.mistakecard"
            )),("project", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.project")),("reviewer_key", models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="memory.apikey",
            )),("reviewer_user", models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            )),("revision", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="reviews", to="memory.mistakecardrevision"
            )),],options={'ordering': ["-created_at", "-id"],'indexes': [models.Index(fields=["project", "-created_at"], name="memory_cardreview_recent"),],'constraints': [models.CheckConstraint(
                condition=models.Q(
                    ("decision__in", ["approve", "reject", "retire", "merge", "unmerge", "confirm_count"])
                ),
                name="memory_cardreview_decision_known",
            ),models.CheckConstraint(
                condition=models.Q(("reviewer", ""), _negated=True), name="memory_cardreview_reviewer_not_blank"
            ),],},),migrations.CreateModel(name='MistakeEmbedding', fields=[("id", models.BigAutoField(primary_key=True, serialize=False)),("text_sha256", models.CharField(max_length=64)),("vector", pgvector.django.halfvec.HalfVectorField()),("card", models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="embeddings",
                to="memory.mistakecard",
            )),("embedding_model", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.embeddingmodel"
            )),("project", models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.project"
            )),],options={'constraints': [models.UniqueConstraint(fields=("card", "embedding_model"), name="memory_mistakeembedding_once"),],},),migrations.CreateModel(name='MistakeMerge', fields=[("id", models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),(
                    "similarity",
                    models.FloatField(blank=True, help_text="Cosine of the two texts, where that decided.", null=True),
                ),("merged_by", models.TextField()),("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("undone_by", models.TextField(blank=True, default="")),("undone_at", models.DateTimeField(blank=True, null=True)),("card", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="merges", to="memory.mistakecard"
            )),("into", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="merges_received", to="memory.mistakecard"
            )),("project", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.project")),("served_before", models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="memory.mistakecardrevision",
            )),],options={'ordering': ["-created_at", "-id"],'constraints': [models.CheckConstraint(
                condition=models.Q(("merged_by", ""), _negated=True), name="memory_mistakemerge_by_not_blank"
            ),models.UniqueConstraint(
                condition=models.Q(("undone_at__isnull", True)),
                fields=("card",),
                name="memory_mistakemerge_one_standing",
            ),models.CheckConstraint(
                condition=models.Q(
                    models.Q(("undone_at__isnull", True), ("undone_by", "")),
                    models.Q(("undone_at__isnull", False), models.Q(("undone_by", ""), _negated=True)),
                    _connector="OR",
                ),
                name="memory_mistakemerge_undone_by_somebody",
            ),],},),migrations.CreateModel(name='MistakeSighting', fields=[("id", models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),("client", models.TextField(blank=True, default="")),("bad_decision", models.TextField(blank=True, default="")),("correct_decision", models.TextField(blank=True, default="")),("evidence", models.TextField(blank=True, default="")),("lesson", models.TextField(blank=True, default="")),("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),("card", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="sightings", to="memory.mistakecard"
            )),("project", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="memory.project")),("trajectory", models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="mistake_sightings", to="memory.trajectory"
            )),],options={'ordering': ["-created_at", "-id"],'indexes': [models.Index(fields=["card", "client"], name="memory_sighting_of_client"),models.Index(fields=["card", "-created_at", "-id"], name="memory_sighting_newest"),],'constraints': [models.UniqueConstraint(fields=("card", "trajectory"), name="memory_sighting_once_a_run"),],},),migrations.AddField(
            model_name="project",
            name="mistake_card_policy",
            field=models.TextField(
                choices=[
                    ("people", "people decide"),
                    ("corroborated", "approve what several runs of several clients report"),
                    ("every-card", "approve every card"),
                ],
                default="people",
                help_text="Who decides which mistake cards agents are given. A policy's decisions are recorded in its name.",
            ),
        ),migrations.AddField(
            model_name="project",
            name="mistake_card_retention_days",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Retire cards that were not seen for so many days; empty keeps them for ever.",
                null=True,
            ),
        ),migrations.AddField(
            model_name="project",
            name="record_budget_tokens",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Size of the record in the context block; empty takes the server's default.",
                null=True,
            ),
        ),migrations.AddField(
            model_name="project",
            name="record_sizes",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text='Most lines of each section of the record, such as {"mistake_cards": 5, "mean_score": 0}. Sections that are not named keep their default.',
                validators=[memory.projects.models.validate_record_sizes],
            ),
        ),migrations.AddField(
            model_name="trajectory",
            name="stated_step_count",
            field=models.PositiveIntegerField(
                blank=True, help_text="How many steps it had, where they were not sent.", null=True
            ),
        ),migrations.AddConstraint(
            model_name="project",
            constraint=models.CheckConstraint(
                condition=models.Q(("mistake_card_policy__in", ["people", "corroborated", "every-card"])),
                name="memory_project_card_policy_known",
            ),
        ),migrations.AddField(
            model_name="mistakecard",
            name="current_revision",
            field=models.OneToOneField(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="memory.mistakecardrevision",
            ),
        ),]
