"""What the database guarantees beyond constraints; runtime/sql/ has the definitions."""

from django.db import migrations

from memory.sql import install


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("memory", "0002_database_rules")]
    operations = [
        install("runtime/sql/tools.sql"),
        install("runtime/sql/runs.sql"),
        install("runtime/sql/audit.sql"),
        install("runtime/sql/conversations.sql"),
        install("runtime/sql/changes.sql"),
    ]
