"""Keys may have the scope `import`."""

import django.contrib.postgres.fields
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

SCOPES = [
    ("trajectories:read", "Trajectories Read"),
    ("trajectories:write", "Trajectories Write"),
    ("heuristics:read", "Heuristics Read"),
    ("heuristics:write", "Heuristics Write"),
    ("retrieve", "Retrieve"),
    ("reflect", "Reflect"),
    ("review", "Review"),
    ("release", "Release"),
    ("memory:read", "Memory Read"),
    ("memory:write", "Memory Write"),
    ("evaluate", "Evaluate"),
    ("run", "Run"),
    ("agents", "Agents"),
    ("approve", "Approve"),
    ("import", "Import"),
]


class Migration(migrations.Migration):
    dependencies = [("memory", "0018_revision_choices_checked")]
    operations = [
        migrations.RemoveConstraint("apikey", "memory_apikey_scopes_known"),
        migrations.AlterField(
            "apikey",
            "scopes",
            django.contrib.postgres.fields.ArrayField(base_field=models.TextField(choices=SCOPES), size=None),
        ),
        AddConstraintNotValid(
            "apikey",
            models.CheckConstraint(
                condition=models.Q(scopes__contained_by=[scope for scope, _ in SCOPES]) & models.Q(scopes__len__gt=0),
                name="memory_apikey_scopes_known",
            ),
        ),
    ]
