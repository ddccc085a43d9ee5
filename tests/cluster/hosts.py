"""Hosts of a test network: network namespaces with addresses of their own, each with a fixed share of the processors.

Needs Linux, root, iproute2 and version 1 of control groups. Everything lies in namespaces of one process, and ends with
it: see `run_in_laboratory`.
"""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.waiting import wait_until

NETWORK = "10.77.0"
GATEWAY = f"{NETWORK}.1"
GROUPS = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpuacct")
PERIOD_MICROSECONDS = 20_000
_GROUP = "TESTS_CONTROL_GROUP"


def find_obstacle() -> str:
    """Return why there can be no test network here, or ""."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "A test network needs Linux and root."
    if missing := [str(folder) for folder in GROUPS if not os.access(folder, os.W_OK)]:
        return f"A test network fixes shares of processors in {missing[0]}, which is not there or read-only."
    tried = subprocess.run(["unshare", "--net", "ip", "link", "add", "type", "veth"], capture_output=True, check=False)  # noqa: S607
    return "" if tried.returncode == 0 else f"No network namespaces here: {tried.stderr.decode().strip()}"


def run_in_laboratory(*command: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program in namespaces of its own; whatever it starts ends with it."""
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    group = f"erl-tests-{os.getpid()}"
    try:
        return subprocess.run([*unshare, *command], env=os.environ | {_GROUP: group}, text=True, check=False, **options)
    finally:
        for folder in GROUPS:
            for host in [*(folder / group).glob("*/"), folder / group]:
                with suppress(OSError):
                    host.rmdir()


def is_laboratory() -> bool:
    """Tell whether this process was started by `run_in_laboratory`."""
    return _GROUP in os.environ


def run(*command: str | Path) -> None:
    """Run a program that has to succeed."""
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


@dataclass(kw_only=True)
class Host:
    """A host with an address and its share of a processor; 0 is no limit."""

    name: str
    number: int
    cores: float
    holder: subprocess.Popen[bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
        self.limit(self.cores)
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])  # noqa: S607
        wait_until(lambda: Path(f"/proc/{self.holder.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink())
        link, pid = f"host{self.number}", str(self.holder.pid)
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "link", "set", link, "master", "network", "up")
        for words in (f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            run(*self._enter, "ip", *words.split())

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number}"

    @property
    def _enter(self) -> tuple[str, ...]:
        return "nsenter", f"--net=/proc/{self.holder.pid}/ns/net"

    @property
    def _folders(self) -> list[Path]:
        return [folder / os.environ[_GROUP] / self.name for folder in GROUPS]

    def limit(self, cores: float) -> None:
        """Fix the share of a processor that all processes of the host have together."""
        quota = round(cores * PERIOD_MICROSECONDS) if cores else -1
        (self._folders[0] / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
        (self._folders[0] / "cpu.cfs_quota_us").write_text(str(quota))

    def start(self, *command: str, log: IO[bytes], **environment: str) -> subprocess.Popen[bytes]:
        """Start a program on the host."""

        def join() -> None:
            for folder in self._folders:
                (folder / "cgroup.procs").write_text(str(os.getpid()))

        return subprocess.Popen(
            [*self._enter, *command],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=join,
        )

    def read_cpu_seconds(self) -> float:
        """Return the seconds that its processes were on a processor."""
        return int((self._folders[1] / "cpuacct.usage").read_text()) / 1e9

    def kill(self) -> int:
        """Kill every process of the host with -9; return how many there were."""
        found = (self._folders[0] / "cgroup.procs").read_text().split()
        for pid in found:
            os.kill(int(pid), 9)
        return len(found)


def make_network() -> None:
    """Connect the hosts to come by a bridge, on which this process has an address, too."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "network", "type", "bridge")
    run("ip", "addr", "add", f"{GATEWAY}/24", "dev", "network")
    run("ip", "link", "set", "network", "up")
