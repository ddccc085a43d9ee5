"""What the database guarantees beyond constraints; agents/sql/ has the definitions."""

from django.db import migrations

from memory.sql import install


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("memory", "0002_database_rules")]
    operations = [install("agents/sql/tools.sql"), install("agents/sql/runs.sql"), install("agents/sql/audit.sql")]
