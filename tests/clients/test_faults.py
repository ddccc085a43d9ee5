"""An ERL that is away, slow or broken: the agent never fails and never waits, and every run is recorded once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from erl_client import ERL, Refused, Unavailable
from erl_client.spool import Spool

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.broken_erl import BrokenErl, garbage, server_error, slow, throttled
from tests.factories import make_api_key
from tests.servers import HOME
from tests.stack import Stack, database_url, free_port

pytestmark = pytest.mark.nightly

BUDGET_SECONDS = 2.0
SLACK_SECONDS = 1.5  # of a loaded machine


@pytest.fixture
def web(transactional_db: None) -> Iterator[Stack]:
    """A gunicorn of its own, which a test starts and kills."""
    stack = Stack(home=HOME, environment={"DATABASE_URL": database_url(connection.settings_dict)})
    try:
        yield stack
    finally:
        stack.kill_all()


def tasks() -> list[str]:
    return list(Trajectory.objects.order_by("created_at").values_list("task", flat=True))


def run_agent(erl: ERL, *names: str) -> float:
    """Run an agent once for each name, and return how long the slowest took."""
    slowest = 0.0
    for name in names:
        began = time.monotonic()
        with erl.run(name, family="faults") as run:
            run.step("work", {"on": name}, observation="done")
            run.success(score=1.0, source="test")
        slowest = max(slowest, time.monotonic() - began)
    return slowest


@pytest.mark.parametrize("fault", [server_error, garbage, throttled, slow], ids=lambda fault: fault.__name__)
def test_runs_of_a_broken_erl_are_recorded_once_when_it_is_back(
    fault: object, project: Project, live_server: object, tmp_path: Path
) -> None:
    token = make_api_key(project=project).token
    with BrokenErl(fault) as broken:
        agent = ERL(broken.url, token, spool=tmp_path / "runs")
        seconds = run_agent(agent, "one", "two", "three")
        began = time.monotonic()
        agent.close()
        seconds_to_close = time.monotonic() - began
    assert Trajectory.objects.count() == 0

    with ERL(live_server.url, token, spool=tmp_path / "runs") as back:  # type: ignore[attr-defined]
        assert back.flush(30)
        run_agent(back, "four")
        assert back.flush(30)

    assert max(seconds, seconds_to_close) < BUDGET_SECONDS + SLACK_SECONDS
    assert tasks() == ["one", "two", "three", "four"]


@pytest.mark.slow
def test_erl_that_dies_during_a_run_gets_it_when_it_is_back(web: Stack, project: Project, tmp_path: Path) -> None:
    web.start_web()
    with ERL(web.base_url, make_api_key(project=project).token, spool=tmp_path / "runs") as erl:
        with erl.run("one") as run:
            assert run.retrieval_id
            web.kill("web")
            run.success()
        seconds = run_agent(erl, "two")
        web.start_web()

        assert erl.flush(60)

    assert seconds < BUDGET_SECONDS + SLACK_SECONDS
    assert tasks() == ["one", "two"]


AGENT = """
import os, signal, sys
from erl_client import ERL

erl = ERL()
for number in range(5):
    with erl.run(f"{sys.argv[1]} {number}") as run:
        run.success()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_several_agents_that_are_killed_leave_runs_for_one_that_lives(
    project: Project, live_server: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, token = live_server.url, make_api_key(project=project).token  # type: ignore[attr-defined]
    monkeypatch.setenv("ERL_URL", url)
    monkeypatch.setenv("ERL_API_KEY", token)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))

    agents = [subprocess.Popen([sys.executable, "-c", AGENT, name]) for name in ("a", "b", "c")]
    assert {agent.wait(60) for agent in agents} == {-signal.SIGKILL}
    with ERL() as last:
        assert last.flush(60)

    recorded = tasks()
    assert sorted(recorded) == sorted(f"{name} {number}" for name in "abc" for number in range(5))
    assert [task for task in recorded if task.startswith("a")] == [f"a {number}" for number in range(5)]


FORKS = """
import os, sys
from erl_client import ERL

erl = ERL()
with erl.run("parent"):
    pass
assert erl.flush(30)
child = os.fork()
with erl.run("child" if child == 0 else "parent again"):
    pass
if child == 0:
    os._exit(0 if erl.flush(30) else 1)
assert os.waitpid(child, 0)[1] == 0
assert erl.flush(30)
"""


def test_forked_process_records_its_own_runs(
    project: Project, live_server: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERL_URL", live_server.url)  # type: ignore[attr-defined]
    monkeypatch.setenv("ERL_API_KEY", make_api_key(project=project).token)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))

    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=90)

    assert sorted(tasks()) == ["child", "parent", "parent again"]


def test_agent_without_a_home_goes_on(
    project: Project, live_server: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ERL_SPOOL")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as it is for a user that has no entry

    with ERL(live_server.url, make_api_key(project=project).token) as erl:  # type: ignore[attr-defined]
        run_agent(erl, "one")
        assert erl.flush()

    assert tasks() == ["one"]


def test_run_whose_answer_was_lost_is_recorded_once(erl: ERL, tmp_path: Path) -> None:
    run_agent(erl, "one")
    assert erl.flush()
    body = {"task": "two", "external_id": "two"}
    erl.spool.add(body)
    sent = erl.spool.waiting()[0]
    erl.api.post("/trajectories", body, idempotency_key=sent.key)  # and dies before it can remove the file

    assert erl.flush()
    assert tasks() == ["one", "two"]


def test_run_that_erl_refuses_is_set_aside_and_the_next_one_recorded(erl: ERL) -> None:
    erl.spool.add({"task": "one", "colour": "red"})
    run_agent(erl, "two")

    assert erl.flush()
    assert tasks() == ["two"]
    (refused,) = erl.spool.refused()
    assert "colour" in refused.with_suffix(".txt").read_text()


def test_erl_is_left_alone_as_long_as_it_asks(tmp_path: Path) -> None:
    with BrokenErl(throttled) as broken:
        agent = ERL(broken.url, "erl_live_x", spool=tmp_path / "runs")
        run_agent(agent, "one", "two", "three")
        assert not agent.flush(1)
        assert not agent.flush(1)  # which asks for another try
        agent.close()

        assert sorted(broken.paths) == ["/api/v1/retrieve", "/api/v1/trajectories"]


def test_spool_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_runs=3)

    dropped = [spool.add({"task": str(number)}) for number in range(5)]

    assert dropped == [0, 0, 0, 1, 1]
    assert [run.read()["task"] for run in spool.waiting()] == ["2", "3", "4"]


def test_runs_are_sent_where_the_disk_cannot_be_written(project: Project, live_server: object, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    token = make_api_key(project=project).token

    with ERL(live_server.url, token, spool=tmp_path / "runs") as erl:  # type: ignore[attr-defined]
        run_agent(erl, "one", "two")
        assert erl.flush()

    assert tasks() == ["one", "two"]


def test_strict_client_says_that_erl_is_away(tmp_path: Path) -> None:
    erl = ERL(f"http://127.0.0.1:{free_port()}", "erl_live_x", strict=True, spool=tmp_path)

    with pytest.raises(Unavailable, match="cannot be reached"), erl.run("one"):
        pass
    erl.close()


def test_strict_client_says_that_its_key_is_refused(erl: ERL, live_server: object, tmp_path: Path) -> None:
    with (
        ERL(live_server.url, "erl_live_x", strict=True, spool=tmp_path) as strict,  # type: ignore[attr-defined]
        pytest.raises(Refused, match="401"),
        strict.run("one"),
    ):
        pass


def test_agent_without_a_key_goes_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("ERL_API_KEY", raising=False)

    with ERL() as erl, erl.run("one") as run:
        run.success()

    assert run.context == ""
    assert "Set ERL_API_KEY" in caplog.text
