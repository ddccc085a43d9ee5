"""What the database guarantees beyond constraints; memory/sql/ has the definitions."""

from django.db import migrations

from memory.sql import install


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [
        install("memory/sql/roles.sql"),
        install("memory/sql/review.sql"),
        install("memory/sql/heuristics.sql"),
        install("memory/sql/search.sql"),
        install("memory/sql/audit.sql"),
        install("memory/sql/quarantine.sql"),
        install("memory/sql/blocks.sql"),
        install("memory/sql/releases.sql"),
        install("memory/sql/discussion.sql"),
        install("memory/sql/projects.sql"),
        install("memory/sql/serving.sql"),
        install("memory/sql/application.sql"),
    ]
