"""Check the scopes of the keys that exist, in a transaction of its own, which stops no requests."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memory", "0019_import_scope")]
    operations = [ValidateConstraint("apikey", "memory_apikey_scopes_known")]
