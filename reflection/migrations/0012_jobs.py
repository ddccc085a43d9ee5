"""One queue for every kind of job: reflections and consolidations are rows of it, and evaluations have one.

The tables of this app are made again. Before 1.0 nothing of them is kept.
"""

from importlib import import_module

import django.db.models.deletion
import django.utils.timezone
import memory.ids
from django.db import migrations, models


_apart = import_module("memory.migrations.0026_projects_apart")
_tenant = import_module("memory.migrations.0027_tenant_role")

OLD = ("reflection", "proposal", "modelcall", "suggestion", "suggestionevidence")
REFERENCES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "reflection_suggestion": (
        ("run_id", "reflection_job", ""),
        ("heuristic_id", "memory_heuristic", ""),
        ("other_id", "memory_heuristic", ""),
    ),
    "reflection_suggestionevidence": (
        ("suggestion_id", "reflection_suggestion", ""),
        ("trajectory_id", "memory_trajectory", ""),
    ),
    "reflection_proposal": (
        ("reflection_id", "reflection_job", ""),
        ("heuristic_id", "memory_heuristic", ""),
        ("near_id", "memory_heuristic", ""),
    ),
    "reflection_modelcall": (("job_id", "reflection_job", ""),),
}
OF_PROJECT = (*REFERENCES, "reflection_job", "reflection_dailyspend")
# What a kind adds to a job has the project of the job.
OF_JOB = ("reflection_reflection", "reflection_consolidationrun")
JOB_IS_SEEN = "EXISTS (SELECT FROM reflection_job j WHERE j.id = job_ptr_id)"
RUN_OF_PROJECT = """
CREATE FUNCTION reflection_reflection_apart() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (
        SELECT FROM memory_trajectory t, reflection_job j
        WHERE t.id = NEW.trajectory_id AND j.id = NEW.job_ptr_id AND t.project_id <> j.project_id
    ) THEN
        RAISE EXCEPTION 'reflection_reflection.trajectory_id names a row of something else'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER reflection_reflection_apart BEFORE INSERT OR UPDATE OF trajectory_id ON reflection_reflection
    FOR EACH ROW EXECUTE FUNCTION reflection_reflection_apart();
"""
GRANT = r"""
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'erl_tenant') THEN
        GRANT SELECT, INSERT, UPDATE ON reflection_providerstate TO erl_tenant;
    END IF;
END $$;
SELECT memory_grant_tenant();
"""


def _sql(text: str) -> migrations.RunSQL:
    return migrations.RunSQL(text, migrations.RunSQL.noop)


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0034_retrieval_options'),
        ('reflection', '0010_tenant_role'),
    ]

    operations = [
        *(_sql(f"DROP FUNCTION reflection_{table}_apart() CASCADE") for table in OLD),
        *(
            migrations.DeleteModel(name)
            for name in (
                "SuggestionEvidence", "Suggestion", "Proposal", "ModelCall", "Reflection", "ConsolidationRun",
                "DailySpend", "ProviderState", "WorkerHeartbeat",
            )
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.TextField(editable=False)),
                ('subject', models.TextField(editable=False)),
                ('status', models.TextField(choices=[('queued', 'Queued'), ('running', 'Running'), ('retry', 'Retry'), ('deferred_budget', 'waiting for budget'), ('done', 'Done'), ('dead', 'Dead')], default='queued')),
                ('available_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('lease_owner', models.TextField(blank=True, default='')),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('last_error_code', models.TextField(blank=True, default='')),
                ('last_error', models.TextField(blank=True, default='')),
                ('model', models.TextField(blank=True, default='')),
                ('input_tokens', models.PositiveBigIntegerField(default=0)),
                ('output_tokens', models.PositiveBigIntegerField(default=0)),
                ('cost_usd', models.DecimalField(decimal_places=6, default=0, max_digits=14)),
                ('requested_by', models.TextField(blank=True, default='')),
                ('request_id', models.TextField(blank=True, default='')),
                ('traceparent', models.TextField(blank=True, default='')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.project')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='PeriodicRun',
            fields=[
                ('name', models.TextField(primary_key=True, serialize=False)),
                ('started_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='WorkerHeartbeat',
            fields=[
                ('name', models.TextField(primary_key=True, serialize=False)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_claim_at', models.DateTimeField(null=True)),
                ('last_sweep_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='ConsolidationRun',
            fields=[
                ('job_ptr', models.OneToOneField(auto_created=True, on_delete=django.db.models.deletion.CASCADE, parent_link=True, primary_key=True, serialize=False, to='reflection.job')),
                ('cause', models.TextField(choices=[('episodes', 'enough new runs'), ('nightly', 'Nightly'), ('command', 'Command'), ('person', 'asked for in the admin')])),
                ('since', models.DateTimeField(help_text='Runs recorded from here on are new; empty reads all.', null=True)),
                ('until', models.DateTimeField(help_text='Runs recorded later are left to the next consolidation.')),
                ('stages_done', models.JSONField(default=list, help_text='Names of the stages whose effect is written.')),
                ('method', models.TextField(blank=True, default='', help_text='What did it: llm or rules.')),
                ('version', models.TextField(blank=True, default='')),
                ('prompt_version', models.TextField(blank=True, default='')),
                ('fallback', models.TextField(blank=True, default='', help_text='Why the rules did the work of the model.')),
                ('episodes', models.PositiveIntegerField(default=0, help_text='New runs it read.')),
                ('notes', models.PositiveIntegerField(default=0, help_text='Notes and mistake cards it compared.')),
                ('items_before', models.PositiveIntegerField(default=0, help_text='Lessons in use or proposed, before.')),
                ('items_after', models.PositiveIntegerField(default=0, help_text='The same if every open suggestion is accepted.')),
                ('tokens_before', models.PositiveIntegerField(default=0, help_text='Tokens of those lessons in a prompt, before.')),
                ('tokens_after', models.PositiveIntegerField(default=0, help_text='The same if every open suggestion is accepted.')),
                ('heuristics_proposed', models.PositiveIntegerField(default=0)),
                ('heuristics_supported', models.PositiveIntegerField(default=0)),
                ('suggestions_made', models.PositiveIntegerField(default=0)),
                ('verdicts', models.PositiveIntegerField(default=0, help_text='Uses of lessons that were judged.')),
            ],
            options={
                'verbose_name': 'consolidation',
                'permissions': [('consolidate_project', 'Can ask for a consolidation')],
            },
            bases=('reflection.job',),
        ),
        migrations.CreateModel(
            name='Reflection',
            fields=[
                ('job_ptr', models.OneToOneField(auto_created=True, on_delete=django.db.models.deletion.CASCADE, parent_link=True, primary_key=True, serialize=False, to='reflection.job')),
                ('reflector', models.TextField(blank=True, default='')),
                ('reflector_version', models.TextField(blank=True, default='')),
                ('prompt_version', models.TextField(blank=True, default='')),
                ('heuristics_proposed', models.PositiveIntegerField(default=0)),
                ('skip_reason', models.TextField(blank=True, default='', help_text='Why nothing was proposed.')),
            ],
            options={
                'permissions': [('requeue_reflection', 'Can queue reflections again')],
            },
            bases=('reflection.job',),
        ),
        migrations.CreateModel(
            name='DailySpend',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('day', models.DateField()),
                ('calls', models.PositiveIntegerField(default=0)),
                ('tokens', models.PositiveBigIntegerField(default=0)),
                ('cost_usd', models.DecimalField(decimal_places=6, default=0, max_digits=14)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.project')),
            ],
            options={
                'verbose_name_plural': 'daily spend',
                'ordering': ['-day'],
            },
        ),
        migrations.CreateModel(
            name='ModelCall',
            fields=[
                ('id', models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('step', models.TextField(help_text='What the call was for, for example reflect or reflect:repair.')),
                ('prompt_sha256', models.CharField(max_length=64)),
                ('provider', models.TextField()),
                ('model', models.TextField()),
                ('response', models.TextField(help_text="The model's answer as it came.")),
                ('finish_reason', models.TextField(blank=True, default='')),
                ('input_tokens', models.PositiveBigIntegerField(default=0)),
                ('output_tokens', models.PositiveBigIntegerField(default=0)),
                ('cost_usd', models.DecimalField(decimal_places=6, default=0, max_digits=14)),
                ('latency_ms', models.FloatField(default=0)),
                ('attempt', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('job', models.ForeignKey(help_text='None: asked by a request.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='model_calls', to='reflection.job')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.project')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Proposal',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('ordinal', models.PositiveSmallIntegerField()),
                ('effect', models.TextField(choices=[('new', 'New'), ('support', 'Support'), ('merge', 'Merge')])),
                ('similarity', models.FloatField(null=True)),
                ('findings', models.JSONField(blank=True, default=list, help_text='What the checks found for the reviewer: [{code, message}].')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('heuristic', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='proposals', to='memory.heuristic')),
                ('near', models.ForeignKey(help_text='What it may be merged into.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memory.heuristic')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.project')),
            ],
            options={
                'ordering': ['reflection', 'ordinal'],
            },
        ),
        migrations.CreateModel(
            name='ProviderState',
            fields=[
                ('provider', models.TextField(primary_key=True, serialize=False)),
                ('state', models.TextField(choices=[('closed', 'Closed'), ('open', 'Open'), ('half_open', 'half open')], default='closed')),
                ('failures', models.PositiveIntegerField(default=0, help_text='In a row.')),
                ('opened_until', models.DateTimeField(null=True)),
                ('rest_seconds', models.FloatField(default=0, help_text='How long the next rest is.')),
                ('last_error_code', models.TextField(blank=True, default='')),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': ['provider'],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['closed', 'open', 'half_open'])), name='reflection_providerstate_state_known')],
            },
        ),
        migrations.CreateModel(
            name='Suggestion',
            fields=[
                ('id', models.UUIDField(default=memory.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.TextField(choices=[('new', 'new lesson'), ('merge', 'Merge'), ('narrow', 'Narrow'), ('generalise', 'Generalise'), ('retire', 'Retire'), ('contradiction', 'Contradiction')])),
                ('status', models.TextField(choices=[('open', 'Open'), ('accepted', 'Accepted'), ('dismissed', 'Dismissed'), ('outdated', 'outdated by another decision')], default='open')),
                ('content_sha256', models.CharField(help_text='The wording it is about.', max_length=64)),
                ('other_sha256', models.CharField(blank=True, default='', max_length=64)),
                ('text', models.JSONField(blank=True, default=dict, help_text='The new wording, where it suggests one.')),
                ('reason', models.TextField()),
                ('similarity', models.FloatField(blank=True, null=True)),
                ('method', models.TextField(help_text='What suggests it: llm or rules.')),
                ('model', models.TextField(blank=True, default='')),
                ('prompt_version', models.TextField(blank=True, default='')),
                ('findings', models.JSONField(blank=True, default=list, help_text='What the checks found: [{code, message}].')),
                ('fingerprint', models.CharField(editable=False, max_length=64)),
                ('tokens_saved', models.IntegerField(default=0, help_text='Prompt tokens it would save where all lessons are given.')),
                ('decided_by', models.TextField(blank=True, default='')),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('decision_reason', models.TextField(blank=True, default='')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('heuristic', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='suggestions', to='memory.heuristic')),
                ('other', models.ForeignKey(blank=True, help_text='The lesson it is to be merged into, or that it contradicts.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.heuristic')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.project')),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='suggestions', to='reflection.consolidationrun')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='SuggestionEvidence',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('quote', models.TextField(blank=True, default='')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.project')),
                ('suggestion', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='evidence', to='reflection.suggestion')),
                ('trajectory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.trajectory')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.AddConstraint(
            model_name='consolidationrun',
            constraint=models.CheckConstraint(condition=models.Q(('cause__in', ['episodes', 'nightly', 'command', 'person'])), name='reflection_consolidation_cause_known'),
        ),
        migrations.AddField(
            model_name='reflection',
            name='trajectory',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reflections', to='memory.trajectory'),
        ),
        migrations.AddField(
            model_name='proposal',
            name='reflection',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='proposals', to='reflection.reflection'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('status__in', ['queued', 'retry', 'deferred_budget'])), fields=['available_at'], name='reflection_job_due'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('status', 'running')), fields=['lease_until'], name='reflection_job_leases'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['project', 'kind', 'status', '-created_at'], name='reflection_job_list'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'retry', 'deferred_budget', 'done', 'dead'])), name='reflection_job_status_known'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ['queued', 'running', 'retry', 'deferred_budget'])), fields=('project', 'kind', 'subject'), name='reflection_job_one_live'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running')), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True)), _connector='OR'), name='reflection_job_lease_while_running'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('finished_at__isnull', False), ('status__in', ['done', 'dead'])), models.Q(models.Q(('status__in', ['done', 'dead']), _negated=True), ('finished_at__isnull', True)), _connector='OR'), name='reflection_job_end_is_known'),
        ),
        migrations.AddConstraint(
            model_name='dailyspend',
            constraint=models.UniqueConstraint(fields=('project', 'day'), name='reflection_dailyspend_one_a_day'),
        ),
        migrations.AddIndex(
            model_name='modelcall',
            index=models.Index(fields=['project', '-created_at'], name='reflection_modelcall_recent'),
        ),
        migrations.AddConstraint(
            model_name='modelcall',
            constraint=models.UniqueConstraint(fields=('job', 'step', 'prompt_sha256'), name='reflection_modelcall_recovery_point'),
        ),
        migrations.AddConstraint(
            model_name='suggestionevidence',
            constraint=models.UniqueConstraint(fields=('suggestion', 'trajectory'), name='reflection_suggestion_evidence_once'),
        ),
        migrations.AddIndex(
            model_name='suggestion',
            index=models.Index(fields=['project', 'status', '-created_at', '-id'], name='reflection_suggestion_queue'),
        ),
        migrations.AddIndex(
            model_name='suggestion',
            index=models.Index(condition=models.Q(('status', 'open')), fields=['heuristic'], name='reflection_suggestion_open'),
        ),
        migrations.AddConstraint(
            model_name='suggestion',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['new', 'merge', 'narrow', 'generalise', 'retire', 'contradiction'])), name='reflection_suggestion_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='suggestion',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['open', 'accepted', 'dismissed', 'outdated'])), name='reflection_suggestion_status_known'),
        ),
        migrations.AddConstraint(
            model_name='suggestion',
            constraint=models.CheckConstraint(condition=models.Q(('reason', ''), _negated=True), name='reflection_suggestion_reason_not_blank'),
        ),
        migrations.AddConstraint(
            model_name='suggestion',
            constraint=models.UniqueConstraint(fields=('project', 'fingerprint'), name='reflection_suggestion_once'),
        ),
        migrations.AddConstraint(
            model_name='suggestion',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at__isnull', True), ('decided_by', ''), ('status', 'open')), models.Q(('decided_at__isnull', False), models.Q(('decided_by', ''), _negated=True), models.Q(('status', 'open'), _negated=True)), _connector='OR'), name='reflection_suggestion_has_a_decider'),
        ),
        migrations.AddConstraint(
            model_name='proposal',
            constraint=models.CheckConstraint(condition=models.Q(('effect__in', ['new', 'support', 'merge'])), name='reflection_proposal_effect_known'),
        ),
        migrations.AddConstraint(
            model_name='proposal',
            constraint=models.UniqueConstraint(fields=('reflection', 'ordinal'), name='reflection_proposal_ordinal_unique'),
        ),
        *(_sql(_apart.keep_apart(table, references)) for table, references in REFERENCES.items()),
        *(_sql(_apart.stay(table)) for table in OF_PROJECT),
        _sql(RUN_OF_PROJECT),
        *(_sql(_tenant.lock(table)) for table in OF_PROJECT),
        *(_sql(_tenant.lock(table, JOB_IS_SEEN)) for table in OF_JOB),
        _sql(GRANT),
    ]
