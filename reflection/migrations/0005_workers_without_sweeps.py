from django.db import migrations

GONE = [
    migrations.RemoveField("workerheartbeat", "last_claim_at"),
    migrations.RemoveField("workerheartbeat", "last_sweep_at"),
    migrations.DeleteModel("PeriodicRun"),
]


class Migration(migrations.Migration):
    dependencies = [("reflection", "0004_what_the_provider_sent")]
    operations = [migrations.SeparateDatabaseAndState(GONE, GONE)]
