"""What the database guarantees beyond constraints; evaluation/sql/ has the definitions."""

from django.db import migrations

from memory.sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("evaluation", "0001_initial"),
        ("memory", "0002_database_rules"),
        ("agents", "0002_database_rules"),
    ]
    operations = [
        install("evaluation/sql/projects.sql"),
        install("evaluation/sql/experiments.sql"),
    ]
