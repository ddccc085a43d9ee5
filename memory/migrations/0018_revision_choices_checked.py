"""Check the polarity and the scope of the wordings that exist.

In a transaction of its own: the one that adds the checks keeps the table locked until it ends, this one stops no writes.
"""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memory", "0017_sealing")]
    operations = [
        ValidateConstraint("heuristicrevision", "memory_revision_polarity_known"),
        ValidateConstraint("heuristicrevision", "memory_revision_scope_known"),
    ]
