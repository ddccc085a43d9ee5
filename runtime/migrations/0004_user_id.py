"""End users of clients."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0003_groups'),
        ('memory', '0011_user_of_runs'),
    ]

    operations = [
        migrations.AddField(
            model_name='conversation',
            name='user_id',
            field=models.TextField(blank=True, db_default='', default='', help_text="The client's own id of its end user."),
        ),
    ]
