"""Look at the reflections that were there before the rules about their ends; nobody waits meanwhile."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("reflection", "0008_projects_apart")]
    operations = [
        ValidateConstraint(model_name="reflection", name="reflection_reflection_lease_ends_with_it"),
        ValidateConstraint(model_name="reflection", name="reflection_reflection_end_is_known"),
    ]
