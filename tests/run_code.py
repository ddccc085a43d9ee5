"""Run the code in the first argument, as `python -c` does: what the supervisor keeps running is a module."""

import sys

if __name__ == "__main__":
    exec(sys.argv[1])  # noqa: S102 - that of tests
