"""Run a function in a process of its own with fewer rights."""

import ctypes
import os
import platform
import struct
import traceback
from collections.abc import Callable

# Who an ordinary user is: the account `nobody` where the tests run as root, else the account that runs them.
ORDINARY_UID = 65534 if os.geteuid() == 0 else os.geteuid()

_UNSHARE = {"x86_64": 272, "aarch64": 97, "arm64": 97}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2


def run_as_ordinary_user(function: Callable[[], object]) -> str:
    """Return "" or the traceback of `function`, run as an ordinary user."""
    return _in_child(_become_ordinary, function)


def run_without_user_namespaces(function: Callable[[], object]) -> str:
    """Return "" or the traceback of `function`, run where the kernel refuses user namespaces as Docker's does."""
    return _in_child(_refuse_unshare, function)


def _become_ordinary() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(ORDINARY_UID)
        os.setuid(ORDINARY_UID)


def _refuse_unshare() -> None:
    """Install a seccomp filter: unshare() answers EPERM."""

    def instruction(code: int, jump_true: int, jump_false: int, value: int) -> bytes:
        return struct.pack("HBBI", code, jump_true, jump_false, value)

    program = b"".join(
        [
            instruction(0x20, 0, 0, 0),  # load the system call's number
            instruction(0x15, 0, 1, _UNSHARE[platform.machine()]),  # is it unshare?
            instruction(0x06, 0, 0, 0x00050000 | 1),  # then EPERM
            instruction(0x06, 0, 0, 0x7FFF0000),  # else allow
        ]
    )
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _in_child(prepare: Callable[[], object], function: Callable[[], object]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            prepare()
            function()
        except BaseException:
            said = traceback.format_exc() or "failed"
        os.write(writer, said.encode()[-60_000:])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
