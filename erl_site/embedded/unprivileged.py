"""Run a command as a user other than root: `python unprivileged.py namespace|UID:GID COMMAND…`.

A program of its own, run by its path: a user namespace needs a process with one thread, and code between fork and
exec (subprocess's preexec_fn) is not safe in a server with several.
"""

import ctypes
import os
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
NAMESPACE_REFUSED = 97
NOT_REACHABLE = 96


def enter_user_namespace() -> None:
    """Map root to another id for this process and its children: files stay root's, and no user needs to be created."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", "1000 0 1"), ("gid_map", "1000 0 1")):
        Path("/proc/self", name).write_text(text)


def become(uid: int, gid: int) -> None:
    """Give up root for good."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def main(who: str, *command: str) -> None:
    """Change who we are, then turn into the command."""
    if who == "namespace":
        try:
            enter_user_namespace()
        except (OSError, AttributeError) as error:
            print(f"No user namespace: {error}", file=sys.stderr)  # noqa: T201
            sys.exit(NAMESPACE_REFUSED)
    else:
        uid, gid = who.split(":")
        become(int(uid), int(gid))
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        print(f"{command[0]}: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(NOT_REACHABLE)


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
