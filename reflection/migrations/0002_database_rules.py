"""What the database guarantees beyond constraints; reflection/sql/ has the definitions."""

from django.db import migrations

from memory.sql import install


class Migration(migrations.Migration):
    dependencies = [("reflection", "0001_initial"), ("memory", "0002_database_rules")]
    operations = [install("reflection/sql/webhooks.sql"), install("reflection/sql/projects.sql")]
