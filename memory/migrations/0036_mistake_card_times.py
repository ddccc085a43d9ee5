"""Mistake cards and their wordings are dated by the database, as heuristics are; plainer help texts."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0035_injected_heuristics'),
    ]

    operations = [
        migrations.AlterField(
            model_name='mistakecard',
            name='created_at',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
        ),
        migrations.AlterField(
            model_name='mistakecard',
            name='imported',
            field=models.JSONField(blank=True, default=dict, editable=False, help_text='The card as imported.'),
        ),
        migrations.AlterField(
            model_name='mistakecard',
            name='imported_count',
            field=models.PositiveIntegerField(default=0, editable=False, help_text='Counted before the import.'),
        ),
        migrations.AlterField(
            model_name='mistakecard',
            name='seen_count',
            field=models.PositiveIntegerField(default=0, editable=False, help_text='Distinct runs, up to a limit for each client, including those of the cards merged into it.'),
        ),
        migrations.AlterField(
            model_name='mistakecardreview',
            name='seen_count',
            field=models.PositiveIntegerField(default=0, help_text='How often the mistake had been seen by then.'),
        ),
        migrations.AlterField(
            model_name='mistakecardrevision',
            name='created_at',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
        ),
        migrations.AlterField(
            model_name='mistakecardrevision',
            name='trajectory',
            field=models.ForeignKey(blank=True, help_text='The run that reported these words.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memory.trajectory'),
        ),
        migrations.AlterField(
            model_name='mistakemerge',
            name='similarity',
            field=models.FloatField(blank=True, help_text='Cosine of the two texts, for automatic merges.', null=True),
        ),
        migrations.RemoveConstraint(model_name="mistakemerge", name="memory_mistakemerge_undone_by_somebody"),
        migrations.AddConstraint(
            model_name="mistakemerge",
            constraint=models.CheckConstraint(
                condition=models.Q(undone_at__isnull=True, undone_by="")
                | (models.Q(undone_at__isnull=False) & ~models.Q(undone_by="")),
                name="memory_mistakemerge_undone_has_actor",
            ),
        ),
    ]
