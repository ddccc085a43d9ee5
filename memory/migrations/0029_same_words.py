"""A wording that says the same as another is found by an index, not by reading every wording of the project."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import MD5, Concat, Lower, Trim

_SAID = Concat(
    "trigger", models.Value(" ", output_field=models.TextField()), "guideline", output_field=models.TextField()
)
_WORDS = models.Func(
    _SAID,
    models.Value(r"\W+"),
    models.Value(" "),
    models.Value("g"),
    function="regexp_replace",
    output_field=models.TextField(),
)


class Migration(migrations.Migration):
    atomic = False  # the index is built while lessons are proposed

    dependencies = [("memory", "0028_key_owners")]
    operations = [
        AddIndexConcurrently(
            model_name="heuristicrevision",
            index=models.Index(models.F("project"), MD5(Lower(Trim(_WORDS))), name="memory_revision_words"),
        ),
    ]
