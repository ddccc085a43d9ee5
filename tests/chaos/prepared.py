"""Make the data folder of a PostgreSQL with the product's tables: `python -m tests.chaos.prepared FOLDER`.

The runner of the faults does so once, and each of its processes starts from a copy: making the tables takes longer than
most faults. The tests' database is there too, for pytest's `--reuse-db`.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.servers import HOME, throw_away_servers  # names the throw-away servers before Django reads its settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

import psycopg  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from erl_site.embedded import postgres  # noqa: E402


def main(folder: Path) -> None:
    call_command("migrate", verbosity=0)
    connection.close()
    home = HOME / "postgres"
    with psycopg.connect(
        host=str(postgres.socket_dir(home)), port=postgres.PORT, user="postgres", dbname="postgres", autocommit=True
    ) as server:
        server.execute("CREATE DATABASE test_erl TEMPLATE erl")
    postgres.stop(home)
    subprocess.run(["cp", "-a", home / "data", folder], check=True)  # noqa: S607


if __name__ == "__main__":
    with throw_away_servers():
        main(Path(sys.argv[1]))
