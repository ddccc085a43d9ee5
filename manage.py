#!/usr/bin/env python3
"""Django's command-line entry point."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    from erl_site.embedded.home import EmbeddedServerError

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        server_error = error.__cause__ and error.__cause__.__cause__  # Django's from psycopg's from ours
        if not isinstance(server_error, EmbeddedServerError):
            raise
        sys.exit(str(server_error))


if __name__ == "__main__":
    main()
