"""Nobody loses sight of the projects by an upgrade: who was in a group becomes a member of every project."""

from typing import Any

from django.db import migrations

ROLES = {"Reviewer": "reviewer", "Auditor": "auditor", "Operator": "operator"}


def make_members(apps: Any, schema_editor: Any) -> None:
    """Write down what the groups meant until now. Superusers see everything without a membership."""
    membership = apps.get_model("memory", "ProjectMembership")
    user_model = apps.get_model("auth", "User")
    for group, role in ROLES.items():
        for user in user_model.objects.filter(groups__name=group, is_superuser=False):
            membership.objects.get_or_create(user=user, project=None, role=role)


class Migration(migrations.Migration):
    dependencies = [("memory", "0011_two_reviewers"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunPython(make_members, migrations.RunPython.noop)]
