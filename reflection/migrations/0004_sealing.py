"""Keep the secrets of webhooks sealed beside the salts that they were made from."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reflection", "0003_groups")]
    operations = [
        migrations.AddField(
            model_name="webhooksecret", name="sealed", field=models.TextField(editable=False, null=True)
        ),
    ]
