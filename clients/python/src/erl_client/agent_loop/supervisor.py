"""Runs a command, and ends its whole process group when the process that asked for it is gone, however it ended.

Started by its path, not as a part of the package, so that it is there at once. Its first argument is the number of a
pipe that nobody writes to and that closes with the asker; the others are the command.
"""

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Return the exit code of the command; 127 where there is no such command, 126 where it cannot be run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stay)  # not SIG_IGN, which the command would inherit
    threading.Thread(target=_watch, args=(int(sys.argv[1]),), daemon=True).start()
    try:
        code = subprocess.run(sys.argv[2:], check=False).returncode
    except OSError as error:
        sys.stderr.write(f"{sys.argv[2]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126
    return code if code >= 0 else 128 - code


def _stay(number: int, frame: object) -> None:
    """Wait for the command, which got the signal too, so that its exit code is known."""


def _watch(pipe: int) -> None:
    os.read(pipe, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
