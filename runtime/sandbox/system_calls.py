"""Which system calls a tool in CPython may make: a seccomp filter that refuses all others.

The guest installs it before it reads the tool, on top of sandlock's own. What is here is what CPython needs to import
and run the standard library with threads, on files that it may read. No call here takes the number of another process,
and none changes anything outside of its own memory; a call that could do either with other arguments has its arguments
checked. Whatever a later kernel adds is refused until it is listed here.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """When a call is allowed: the bits in `mask` of one argument, counted from 0, are one of `values`."""

    place: int
    values: Sequence[int]
    mask: int = 0xFFFFFFFF


# The number of each call on x86_64 and on aarch64, None where there is no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # Files: read, and look at. Landlock says which.
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "lseek": (8, 62),
    "pread64": (17, 67),
    "open": (2, None),
    "openat": (257, 56),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "dup": (32, 23),
    "fcntl": (72, 25),
    # Its own memory.
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "getrandom": (318, 278),
    # Its own threads, and its end.
    "clone": (56, 220),
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    # What it is, and the time.
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "uname": (63, 160),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "restart_syscall": (219, 128),
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FOLDER_OR_PATH = 0o10000000  # O_PATH, for which Landlock is not asked
_OWN_CLOCKS = range(8)  # a negative one is the processor time of another process
_LOCKED_OR_HUGE = 0x2000 | 0x40000
_HARMLESS_ADVICE = (4, 8, 14, 15)  # to give memory back, and about huge pages; others are root's, or share pages
_DUPLICATE_OR_FLAGS = (0, 1, 2, 3, 1030)  # no owner or signal, no lease or lock, no size of a pipe
# To wait and to wake. Those that lend their priority take the number of any thread.
_WAIT_OR_WAKE = (0, 1, 3, 4, 5, 9, 10)
_A_THREAD = (0x3D0F00, 0x7D0F00)  # as glibc and as musl start one
ONLY_WITH: dict[str, Argument] = {
    "open": Argument(place=1, mask=_WRITES | _FOLDER_OR_PATH, values=[0]),
    "openat": Argument(place=2, mask=_WRITES | _FOLDER_OR_PATH, values=[0]),
    "fcntl": Argument(place=1, values=_DUPLICATE_OR_FLAGS),
    "mmap": Argument(place=3, mask=_LOCKED_OR_HUGE, values=[0]),
    "madvise": Argument(place=2, values=_HARMLESS_ADVICE),
    "clone": Argument(place=0, values=_A_THREAD),
    "futex": Argument(place=1, mask=0x7F, values=_WAIT_OR_WAKE),
    "sched_getaffinity": Argument(place=0, values=[0]),
    "clock_gettime": Argument(place=0, values=_OWN_CLOCKS),
    "clock_getres": Argument(place=0, values=_OWN_CLOCKS),
    "clock_nanosleep": Argument(place=0, values=_OWN_CLOCKS),
}
# Its arguments are in memory, where a filter cannot look. Told that there is no such call, glibc uses clone.
_CLONE3 = 435
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_ALLOW, _EPERM, _ENOSYS, _KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
_LOAD, _EQUAL, _AND, _GIVE = 0x20, 0x15, 0x54, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16


def write_filter(machine: str) -> bytes:
    """Return the filter for a machine as the kernel reads it, empty where its calls are not known here."""
    if machine not in _MACHINES:
        return b""
    column, architecture = _MACHINES[machine]
    # A call in the manner of another machine, such as 32 bits on 64, has other numbers.
    program = _step(_LOAD, _MACHINE_AT) + _step(_EQUAL, architecture, jump_if=1) + _step(_GIVE, _KILL)
    program += _step(_LOAD, _NUMBER_AT)
    for name, numbers in NUMBERS.items():
        number = numbers[column]
        if number is not None:
            program += _if_equal(number, _judge(ONLY_WITH.get(name)))
    return program + _if_equal(_CLONE3, _step(_GIVE, _ENOSYS)) + _step(_GIVE, _EPERM)


def _judge(argument: Argument | None) -> bytes:
    if argument is None:
        return _step(_GIVE, _ALLOW)
    # The kernel reads these arguments as 32 bits, the lower ones.
    program = _step(_LOAD, _ARGUMENTS_AT + 8 * argument.place) + _step(_AND, argument.mask)
    for value in argument.values:
        program += _if_equal(value, _step(_GIVE, _ALLOW))
    return program + _step(_GIVE, _EPERM)


def _if_equal(value: int, then: bytes) -> bytes:
    # Jumps are counted in steps of 8 bytes.
    return _step(_EQUAL, value, jump_if_not=len(then) // 8) + then


def _step(code: int, value: int, *, jump_if: int = 0, jump_if_not: int = 0) -> bytes:
    # This is the kernel's struct sock_filter.
    return struct.pack("=HBBI", code, jump_if, jump_if_not, value)
