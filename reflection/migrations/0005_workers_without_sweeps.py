from django.db import migrations


class Migration(migrations.Migration):
    """Columns and table stay, for workers of the last release."""

    dependencies = [("reflection", "0004_what_the_provider_sent")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField("workerheartbeat", "last_claim_at"),
                migrations.RemoveField("workerheartbeat", "last_sweep_at"),
                migrations.DeleteModel("PeriodicRun"),
            ]
        )
    ]
