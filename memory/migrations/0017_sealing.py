"""Make room for the sealed keys of authenticator apps. Its time tells how long the release before it may still run."""

from typing import Any

from django.db import migrations


def widen_keys(apps: Any, schema_editor: Any) -> None:
    # Only a limit in the catalogue changes, so no row is read or written. The model of django-otp says 80 characters,
    # which it checks in forms alone.
    schema_editor.execute("ALTER TABLE otp_totp_totpdevice ALTER COLUMN key TYPE varchar(300)")


class Migration(migrations.Migration):
    dependencies = [("memory", "0016_erase_person"), ("otp_totp", "0003_add_timestamps")]
    operations = [migrations.RunPython(widen_keys, migrations.RunPython.noop)]
