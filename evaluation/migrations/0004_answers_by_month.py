"""Shadow answers refer to answers without a foreign key."""

from django.db import migrations

from memory.sql import reinstall


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0003_groups"), ("memory", "0004_answers_by_month")]
    operations = [reinstall("evaluation/sql/projects.sql")]
