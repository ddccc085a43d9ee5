"""Run a command as a user other than root: `python unprivileged.py namespace|UID:GID COMMAND…`.

A separate program, run by its path: entering a user namespace requires a single-threaded process, and subprocess's
preexec_fn is not safe in a process with threads.
"""

import ctypes
import os
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
NAMESPACE_REFUSED = 97
NOT_REACHABLE = 96


def enter_user_namespace() -> None:
    """Map root to another id for this process and its children. Files still belong to root; no user is created."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    # The kernel takes a gid_map only after setgroups is denied (user_namespaces(7)).
    for name, text in (("setgroups", "deny"), ("uid_map", "1000 0 1"), ("gid_map", "1000 0 1")):
        Path("/proc/self", name).write_text(text)


def become(uid: int, gid: int) -> None:
    """Drop root privileges permanently."""
    # Groups first: without root's rights they could not be changed.
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def main(who: str, *command: str) -> None:
    """Change the user, then execute the command."""
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
        os.execv(command[0], command)  # noqa: S606 - no shell needed
    except OSError as error:
        print(f"{command[0]}: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(NOT_REACHABLE)


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
