"""Lessons are found by the names they have, by those like them, and those whose names are still to be made."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # the indexes are built while lessons are proposed

    dependencies = [("memory", "0032_names")]
    operations = [
        AddIndexConcurrently(
            model_name="heuristicrevision",
            index=GinIndex(
                fields=["project", "names"],
                opclasses=["uuid_ops", "gin_trgm_ops"],
                name="memory_revision_names",
                condition=models.Q(served=True, names__gt=""),
            ),
        ),
        AddIndexConcurrently(
            model_name="heuristicrevision",
            index=GinIndex(
                models.F("project"),
                models.Func(
                    models.F("names"),
                    models.Value(" "),
                    function="string_to_array",
                    output_field=ArrayField(models.TextField()),
                ),
                name="memory_revision_named",
                condition=models.Q(served=True, names__gt=""),
            ),
        ),
        AddIndexConcurrently(
            model_name="heuristicrevision",
            index=models.Index(fields=["id"], name="memory_revision_nameless", condition=models.Q(names__isnull=True)),
        ),
    ]
