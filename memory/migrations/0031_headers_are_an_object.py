"""The headers of a stored answer are an object: a replay of anything else would fail."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0030_dated_by_the_database")]

    operations = [
        AddConstraintNotValid(
            model_name="idempotencyrecord",
            constraint=models.CheckConstraint(
                condition=models.Q(headers__contains={}), name="memory_idempotency_headers_are_an_object"
            ),
        )
    ]
