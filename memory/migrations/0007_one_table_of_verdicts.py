"""What clients say of the use of lessons is in one table with what judges say."""

import django.db.models.deletion
from django.db import migrations, models

GONE = [migrations.DeleteModel("HeuristicFeedback")]


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0006_fewer_tables'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='usageverdict',
            name='memory_usageverdict_once_a_run',
        ),
        migrations.AddField(
            model_name='usageverdict',
            name='client',
            field=models.TextField(blank=True),
        ),
        migrations.AddField(
            model_name='usageverdict',
            name='comment',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='usageverdict',
            name='helpful',
            field=models.BooleanField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='usageverdict',
            name='content_sha256',
            field=models.CharField(blank=True, default='', help_text='The wording the run was given, if a judge says it.', max_length=64),
        ),
        migrations.AlterField(
            model_name='usageverdict',
            name='heuristic',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.heuristic'),
        ),
        migrations.AlterField(
            model_name='usageverdict',
            name='judge',
            field=models.TextField(blank=True, default='', help_text='Who read the run: rules or llm.'),
        ),
        migrations.AlterField(
            model_name='usageverdict',
            name='retrieval',
            field=models.ForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='verdicts', to='memory.retrieval'),
        ),
        migrations.AlterField(
            model_name='usageverdict',
            name='trajectory',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memory.trajectory'),
        ),
        migrations.AddConstraint(
            model_name='usageverdict',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('judge', ''), models.Q(('client', ''), _negated=True), models.Q(('verdict', 'unclear'), _negated=True)), models.Q(('client', ''), ('trajectory__isnull', False), models.Q(('judge', ''), _negated=True)), _connector='OR'), name='memory_usageverdict_of_client_or_judge'),
        ),
        migrations.AddConstraint(
            model_name='usageverdict',
            constraint=models.UniqueConstraint(fields=('heuristic', 'trajectory', 'client'), name='memory_usageverdict_once_a_run'),
        ),
        migrations.AddConstraint(
            model_name='usageverdict',
            constraint=models.UniqueConstraint(condition=models.Q(('retrieval__isnull', False), ('trajectory__isnull', True)), fields=('heuristic', 'client', 'retrieval'), name='memory_usageverdict_once_a_retrieval'),
        ),
        migrations.SeparateDatabaseAndState(GONE, GONE),
        migrations.CreateModel(
            name='HeuristicFeedback',
            fields=[
            ],
            options={
                'verbose_name_plural': 'heuristic feedback',
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('memory.usageverdict',),
        ),
    ]
