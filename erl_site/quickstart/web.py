"""The web server of the quickstart: gunicorn, in a fork of a process that has read the settings for a command."""

import os

from django.conf import settings
from gunicorn.app.wsgiapp import run

MOST_SECONDS = 5.0  # of a statement, as erl_site.asgi has it where it reads the settings itself


def limit_statements() -> None:
    """Let no page take longer, unless the environment says how long."""
    if "ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS" in os.environ:
        return
    settings.ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS = MOST_SECONDS
    options = settings.DATABASES["default"]["OPTIONS"]
    # Behind a pooler there are none, and the limits stand on the role.
    if "options" in options:
        limit = f"statement_timeout={MOST_SECONDS * 1000:.0f}ms"
        options["options"] = options["options"].replace("statement_timeout=0ms", limit)


if __name__ == "__main__":
    limit_statements()
    run(prog="gunicorn")
