"""A host with secrets, on which hostile programs are run: `python -m tests.runtime.hostile_host [--filter]`.

Prints one JSON object a program: what it was after, how its call ended, and whether it reached anything. With
`--user NAME` the process gives up its user first, with `--filter` it forbids itself what Docker's profile forbids, and
with `--runtime python` the programs run in CPython, which has programs of its own besides.
"""

import argparse
import ctypes
import json
import os
import pwd
import secrets
import shutil
import socket
import struct
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings
from pydantic_monty._binary import find_monty_binary

from runtime.sandbox import SandboxLimits, SandboxStatus, cpython, run_tool
from runtime.sandbox.hosts import find_sandlock
from tests.runtime.calling import make_call
from tests.runtime.hostile_programs import CPYTHON_PROGRAMS, PROGRAMS, HostileProgram

LIMITS = SandboxLimits(seconds=0.2, memory_bytes=16 * 1024 * 1024, output_chars=10_000, recursion=200, host_calls=20)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """How one program ended. `reached` is empty, or says what it got hold of."""

    name: str
    goal: str
    status: str
    fault: str
    reached: str


class HostileHost:
    """A file, a variable, services and a sibling that each hold the same secret."""

    def __init__(self, folder: Path, runtime: str = "monty") -> None:
        self.runtime = runtime
        self.secret = secrets.token_hex(16)
        self.secret_file = folder / "secret"
        self.secret_file.write_text(self.secret)
        self._stat = self.secret_file.stat()
        self.unix_socket, self.abstract_socket = str(folder / "socket"), f"\0erl-{self.secret[:8]}"
        self.mark = folder / "mark"
        os.environ["ERL_HOSTILE_SECRET"] = self.secret
        self.connections = 0
        server = socket.create_server(("127.0.0.1", 0))
        self.port = server.getsockname()[1]
        self._inherited = os.open(self.secret_file, os.O_RDONLY)
        os.set_inheritable(self._inherited, True)
        for each in (server, _listen(self.unix_socket), _listen(self.abstract_socket)):
            threading.Thread(target=self._serve, args=[each], daemon=True).start()

    def _serve(self, server: socket.socket) -> None:
        while True:
            connection, _ = server.accept()
            self.connections += 1
            with connection:
                connection.sendall(self.secret.encode())

    def attempt(self, program: HostileProgram) -> Attempt:
        """Run a program after a sibling that leaves the secret behind, and before one that has to work."""
        is_quick = self.runtime == "monty"  # CPython has a process for each call, so few programs need company
        if is_quick or program.goal == "sibling":
            run_tool(make_call(self._sibling(), limits=LIMITS, runtime=self.runtime), {})
        source = program.source.format(
            secret_file=str(self.secret_file),
            mark=str(self.mark),
            port=self.port,
            unix_socket=self.unix_socket,
            abstract_socket=self.abstract_socket,
        )
        outcome = run_tool(make_call(source, limits=LIMITS, runtime=self.runtime), {"allowed": lambda *args: None})
        found = [
            name
            for name, is_reached in {
                "secret": self.secret in repr(outcome) or self.secret[:12] in repr(outcome),
                "network": self.connections > 0,
                "write": os.path.lexists(self.mark) or self._is_changed(),
                "sandbox": (is_quick or program.goal in ("process", "exhaustion")) and not self._works(),
                "process": outcome.fault is not None and outcome.fault.kind == "AssertionError",
            }.items()
            if is_reached
        ]
        # CPython answers much that tells nothing: an empty environment, the status of a shell that is not there.
        is_suspicious = self.runtime == "monty" and program.goal != "exhaustion" and "globals" not in program.name
        if is_suspicious and outcome.status == SandboxStatus.RETURNED:
            found.append(f"returned {outcome.value!r:.100}")
        return Attempt(
            name=program.name,
            goal=program.goal,
            status=outcome.status,
            fault=str(outcome.fault or "")[:100],
            reached=", ".join(found),
        )

    def _works(self) -> bool:
        return bool(run_tool(make_call("def tool(): return 1", runtime=self.runtime), {}).value == 1)

    def _is_changed(self) -> bool:
        """Whether the file with the secret is gone, or another than it was."""
        if not self.secret_file.exists():
            return True
        now, then = self.secret_file.stat(), self._stat
        what = ("st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns", "st_nlink")
        return any(getattr(now, each) != getattr(then, each) for each in what) or bool(os.listxattr(self.secret_file))

    def _sibling(self) -> str:
        return f"""
import json
left_by_a_sibling = {self.secret!r}
def tool():
    global left_by_a_sibling
    left_by_a_sibling = {self.secret!r}
    try:
        json.left_by_a_sibling = left_by_a_sibling
    except Exception:
        pass
"""


def _listen(address: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    return server


def become(name: str, folder: Path) -> None:
    """Give up this process's user for another, who may be unable to read where the interpreter is installed."""
    account = pwd.getpwnam(name)
    program = shutil.copy(find_monty_binary(), folder)
    os.environ["MONTY_BIN"] = str(program)
    for path in (folder, Path(program)):
        path.chmod(0o755)
        os.chown(path, account.pw_uid, account.pw_gid)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    # A process that gave up its user may not be looked at by its children's sandbox, until it says so.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    if not os.access(cpython.INTERPRETER, os.X_OK):
        cpython.INTERPRETER = os.path.realpath("/usr/bin/python3")


# A filter like Docker's profile: no new privileges, and EPERM for what makes namespaces or looks into other processes.
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 4, 38, 22, 2
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001
_CLONE_NEWUSER = 0x10000000
_ARCHITECTURE_X86_64 = 0xC000003E
_FORBIDDEN = {"ptrace": 101, "mount": 165, "unshare": 272, "setns": 308, "bpf": 321, "userfaultfd": 323}
_CLONE = 56


def forbid_what_docker_forbids() -> None:
    """Install the filter in this process, for it and all it starts."""
    if os.uname().machine != "x86_64":
        raise OSError("The filter is written for x86_64.")

    def step(code: int, jt: int, jf: int, k: int) -> bytes:
        return struct.pack("HBBI", code, jt, jf, k)

    load, equal, masked, give = 0x20, 0x15, 0x45, 0x06
    program = step(load, 0, 0, 4) + step(equal, 1, 0, _ARCHITECTURE_X86_64) + step(give, 0, 0, _EPERM)
    program += step(load, 0, 0, 0)
    for number in _FORBIDDEN.values():
        program += step(equal, 0, 1, number) + step(give, 0, 0, _EPERM)
    program += step(equal, 0, 3, _CLONE) + step(load, 0, 0, 16) + step(masked, 0, 1, _CLONE_NEWUSER)
    program += step(give, 0, 0, _EPERM) + step(give, 0, 0, _ALLOW)

    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(program, len(program))
    listed = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(text))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, listed):
        raise OSError(ctypes.get_errno(), "The filter cannot be installed.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", help="become this user first")
    parser.add_argument("--filter", action="store_true", help="forbid what Docker's profile forbids")
    parser.add_argument("--runtime", choices=("monty", "python"), default="monty")
    options = parser.parse_args()
    settings.configure(SECRET_KEY=secrets.token_hex(32), SECRET_KEY_FALLBACKS=[])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if options.runtime == "python" and not (offer := find_sandlock()).works:
            sys.exit(offer.why_not)
        if options.user:
            become(options.user, Path(folder))
        if options.filter:
            forbid_what_docker_forbids()
        host = HostileHost(Path(folder), options.runtime)
        for program in PROGRAMS if options.runtime == "monty" else PROGRAMS + CPYTHON_PROGRAMS:
            print(json.dumps(asdict(host.attempt(program))))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
