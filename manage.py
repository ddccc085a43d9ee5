#!/usr/bin/env python3
"""Django's command-line entry point."""

import gc
import os
import sys


def main() -> None:
    gc.set_threshold(100_000)  # what a command loads stays: to look through it so often took an eighth of the start
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
    from django.core.management import execute_from_command_line
    from django.db import InternalError, OperationalError
    from psycopg.errors import ReadOnlySqlTransaction

    from erl_site.embedded.home import find_server_error

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        if (server_error := find_server_error(error)) is None:
            raise
        sys.exit(str(server_error))
    except InternalError as error:
        if not isinstance(error.__cause__, ReadOnlySqlTransaction):
            raise
        from erl_site.preflight import READ_ONLY

        sys.exit(READ_ONLY)
    finally:
        gc.freeze()  # it ends with the process: to look through it once more took a quarter of the time of `check`


if __name__ == "__main__":
    main()
