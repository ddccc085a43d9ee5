"""How long a project keeps its texts."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0013_receipts_of_persons")]
    operations = [
        migrations.AddField(
            model_name='project',
            name='answer_retention_days',
            field=models.PositiveIntegerField(blank=True, help_text='Delete answers that no run refers to after this many days. The server may delete them before.', null=True, validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AddField(
            model_name='project',
            name='conversation_retention_days',
            field=models.PositiveIntegerField(blank=True, help_text='Erase conversations, with their runs, this many days after their last message.', null=True, validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AddField(
            model_name='project',
            name='passage_retention_days',
            field=models.PositiveIntegerField(blank=True, help_text='Delete passages after this many days.', null=True, validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AddField(
            model_name='project',
            name='run_retention_days',
            field=models.PositiveIntegerField(blank=True, help_text='Erase runs, with what was learnt from them alone, this many days after their last step.', null=True, validators=[django.core.validators.MinValueValidator(1)]),
        ),
    ]
