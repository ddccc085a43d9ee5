"""What starts is waited for while it does something, and no longer."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from erl_site.embedded import processes
from erl_site.embedded.home import log_size, read_log_tail
from erl_site.embedded.patience import Patience
from erl_site.embedded.supervisor import Service, Supervisor
from erl_site.quickstart.stack import StackError, wait_until_ready
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly

BUSY = "while True: pass"
IDLE = "import time; time.sleep(300)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
WRITES = "import time\nwhile True:\n    print('still here', flush=True)\n    time.sleep(0.2)"
Start = Callable[[str], tuple[subprocess.Popen[bytes], Path]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start programs that write to a log; they are killed afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(code: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = tmp_path / "program.log"
        with log.open("ab") as stream:
            command = [sys.executable, "-c", code]
            started.append(subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True))
        return started[-1], log

    yield begin
    for process in started:
        processes.signal_group(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("code", [BUSY, PARENT, WRITES])
def test_patience_lasts_while_a_process_works_or_writes(start: Start, code: str) -> None:
    process, log = start(code)
    patience = Patience(lambda: process.pid, log, seconds=3.0)
    looks = iter(range(400))

    assert wait_until(lambda: "over" if patience.is_over() else next(looks, "lasts") == "lasts") != "over"


def test_patience_ends_where_nothing_happens(start: Start) -> None:
    process, log = start(IDLE)
    patience = Patience(lambda: process.pid, log, seconds=1.0)

    wait_until(patience.is_over)

    assert "s of processor time" in patience.describe()


def test_patience_ends_where_there_is_no_process(tmp_path: Path) -> None:
    wait_until(Patience(lambda: None, tmp_path / "none.log", seconds=0.5).is_over)


def test_used_time_counts_descendants(start: Start) -> None:
    process, _ = start(PARENT)

    wait_until(lambda: processes.used_seconds(process.pid) > 1.0)

    assert processes.used_seconds(process.pid) > processes.used_seconds(2**22 + 1) == 0.0


def test_log_tail_leaves_out_earlier_runs(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.write_text("of the run before\n")
    since = log_size(log)
    assert read_log_tail(log, since=since) == ""
    log.write_text("of the run before\nof this run\n")
    assert read_log_tail(log, since=since) == "of this run"
    log.write_text("new\n")  # it was rotated
    assert read_log_tail(log, since=since) == "new"


def test_web_that_does_nothing_is_given_up_with_reason_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erl_site.embedded.patience.STALLED_SECONDS", 1.0)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "web.log").write_text("an error of the run before\n")
    supervisor = Supervisor(home=tmp_path, services=[Service(name="web", command=("tests.run_code", IDLE))])
    supervisor.start()
    try:
        with pytest.raises(StackError) as refusal:
            wait_until_ready(supervisor, "http://127.0.0.1:1")
    finally:
        supervisor.stop()

    assert "The web process does not answer, and has done nothing for 1 s" in str(refusal.value)
    assert "run the same command again" in str(refusal.value)
    assert "an error of the run before" not in str(refusal.value)
