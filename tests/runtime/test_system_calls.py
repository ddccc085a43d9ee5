"""A tool in CPython makes the system calls that are listed, with the arguments that are listed, and no others."""

import os
from pathlib import Path

import pytest

from runtime.sandbox import SandboxLimits, SandboxStatus, run_tool
from runtime.sandbox.system_calls import NUMBERS, ONLY_WITH, write_filter
from tests.runtime.calling import make_call
from tests.runtime.cpython import needs_sandlock
from tests.runtime.hostile_host import HostileHost
from tests.runtime.hostile_programs import SYSTEM_CALLS, HostileProgram

pytestmark = needs_sandlock
COLUMN = int(os.uname().machine == "aarch64")
LIMITS = SandboxLimits(seconds=10, memory_bytes=256 * 1024 * 1024)
# These end the process, jump, or ask for more memory than there is, for which sandlock ends it.
NOT_TRIED = ("exit", "exit_group", "rt_sigreturn", "brk", "mprotect")
# Breakpoints of the kernel's tracer on x86_64: it asks no filter about them, and ends a process that calls them itself.
UPROBES = [] if COLUMN else [335, 336]
EVERY_CALL = """
    import ctypes
    def tool(left_out: list[int]) -> list[int]:
        libc, answered = ctypes.CDLL(None, use_errno=True), []
        for number in range(1024):
            if number not in left_out:
                ctypes.set_errno(0)
                answer = libc.syscall(number, -1, -1, -1, -1, -1, -1)
                if answer != -1 or ctypes.get_errno() not in (1, 38):
                    answered.append(number)
        return answered
"""
DIE = ("calls_of_32_bits", "calls_of_x32") if not COLUMN else ("calls_of_32_bits",)


def test_every_system_call_of_the_table_is_refused_but_those_that_python_needs() -> None:
    left_out = [*UPROBES, *(NUMBERS[name][COLUMN] for name in NOT_TRIED)]
    outcome = run_tool(make_call(EVERY_CALL, runtime="python", limits=LIMITS, left_out=left_out), {})
    names = {numbers[COLUMN]: name for name, numbers in NUMBERS.items()}

    assert outcome.status == SandboxStatus.RETURNED, outcome.fault
    answered = {names.get(number, number) for number in outcome.value}
    assert answered == {
        *("read", "write", "close", "lseek", "pread64", "getdents64", "getcwd", "stat", "fstat", "lstat"),
        *("newfstatat", "dup", "munmap", "mremap", "getrandom", "set_robust_list", "rseq"),
        *("sched_yield", "rt_sigaction", "rt_sigprocmask", "sigaltstack", "getpid", "getppid", "gettid", "uname"),
        *("getuid", "geteuid", "getgid", "getegid", "gettimeofday", "time", "nanosleep", "restart_syscall"),
    } & {name for name, numbers in NUMBERS.items() if numbers[COLUMN] is not None}
    assert answered.isdisjoint(ONLY_WITH)  # of these, -1 is refused


@pytest.mark.parametrize("program", SYSTEM_CALLS, ids=lambda program: program.name)
def test_system_call_that_would_work_is_refused_as_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: HostileProgram
) -> None:
    monkeypatch.setenv("ERL_HOSTILE_SECRET", "")
    attempt = HostileHost(tmp_path, "python").attempt(program)

    assert (attempt.reached, attempt.status) == ("", "stopped" if program.name in DIE else "returned")


ORDINARY = {
    "json": "json.loads(json.dumps({'a': [1, 2.5, None]}))['a'][1] == 2.5",
    "re": "re.sub('a+', 'b', 'caat') == 'cbt'",
    "decimal": "decimal.Decimal('1.10') + 1 == decimal.Decimal('2.10')",
    "datetime": "datetime.datetime.now().year == 2026",
    "statistics": "statistics.median([3, 1, 2]) == 2",
    "random": "0 <= random.random() < 1",
    "hashlib": "hashlib.pbkdf2_hmac('sha256', b'a', b'b', 10).hex() != ''",
    "sqlite3": "sqlite3.connect(':memory:').execute('select 1').fetchall() == [(1,)]",
    "uuid": "uuid.uuid4().version == 4",
    "lzma": "lzma.decompress(lzma.compress(b'x' * 9999)) == b'x' * 9999",
    "pickle": "pickle.loads(pickle.dumps({1: 2})) == {1: 2}",
    "inspect": "inspect.getsource(inspect.getsource).startswith('def')",
    "tempfile": "tempfile.SpooledTemporaryFile().write(b'x') == 1",
    "mmap": "len(mmap.mmap(-1, 1 << 20)) == 1 << 20",
    "os": "os.path.isdir(os.path.dirname(os.__file__)) and os.listdir(os.path.dirname(os.__file__)) != []",
    "time": "time.monotonic() > 0 and time.process_time() > 0 and time.thread_time() > 0",
    "queue": "queue.SimpleQueue().empty()",
    "concurrent.futures": "sum(concurrent.futures.ThreadPoolExecutor(4).map(abs, range(9))) == 36",
    "xml.etree.ElementTree": "xml.etree.ElementTree.fromstring('<a/>').tag == 'a'",
    "zlib": "zlib.decompress(zlib.compress(b'x')) == b'x'",
    "logging": "logging.getLogger('a').warning('b') is None",
    "platform": "platform.system() == 'Linux'",
    "ctypes": "ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 5)() == 5",
}


def test_ordinary_modules_work() -> None:
    lines = [f"    import {module}\n    works[{module!r}] = {test}" for module, test in ORDINARY.items()]
    source = "\n".join(
        ["def tool():", "    works = {}", *lines, "    return [name for name in works if not works[name]]"]
    )
    outcome = run_tool(make_call(source, runtime="python", limits=LIMITS), {})

    assert (outcome.fault, outcome.value) == (None, [])


def test_machine_whose_calls_are_not_known_has_no_filter() -> None:
    assert write_filter("riscv64") == b""
