"""A decision can be undone for a few seconds; that is a decision too."""

from django.db import migrations, models

DECISIONS = ["approve", "edit", "reject", "retire", "quarantine", "merge", "undo"]


class Migration(migrations.Migration):
    dependencies = [("memory", "0004_search_functions")]
    operations = [
        migrations.RemoveConstraint(model_name="review", name="memory_review_decision_known"),
        migrations.AlterField(
            model_name="review",
            name="decision",
            field=models.TextField(choices=[(name, name.capitalize()) for name in DECISIONS]),
        ),
        migrations.AddConstraint(
            model_name="review",
            constraint=models.CheckConstraint(
                condition=models.Q(decision__in=DECISIONS), name="memory_review_decision_known"
            ),
        ),
    ]
