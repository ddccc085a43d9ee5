"""A key whose owner's account is deleted decides no longer."""

from django.db import migrations

from memory.sql import reinstall


class Migration(migrations.Migration):
    dependencies = [("memory", "0004_answers_by_month")]
    operations = [reinstall("memory/sql/projects.sql")]
