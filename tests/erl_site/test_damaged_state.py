"""Damaged or unreadable state: every command ends with a sentence that says what to do, and no traceback."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from erl_site.embedded import valkey
from tests.servers import discard_home
from tests.stack import ROOT, free_port

pytestmark = pytest.mark.nightly

MANAGE = ("manage.py",)
WORKER = ("-m", "celery", "-A", "erl_site", "worker", "-P", "solo", "--without-mingle", "--without-gossip")
WEB = ("-m", "gunicorn", "erl_site.asgi", "--bind=127.0.0.1:0", "--preload", "--no-control-socket")
GOOD_KEY = "x7Jq-" * 12
_DROP_BOUNDING_CAPABILITY, _CAP_DAC_OVERRIDE = 24, 1  # prctl(2), capabilities(7)


@pytest.fixture
def home(place: Path) -> Iterator[Path]:
    """A home that is empty, and without servers afterwards."""
    home = place / "home"
    home.mkdir()
    yield home
    discard_home(home)


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def refuse(home: Path, *command: str, **environment: str) -> str:
    """Run a command that must fail, and return what it said: lines of text, and no traceback."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=inherited | {"ERL_HOME": str(home), "TEST_EMBEDDED_DURABLE": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        preexec_fn=respect_modes,
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode, said
    assert "Traceback" not in said
    return said


def respect_modes() -> None:
    """Let the modes of files count for root too, as they do for everyone else."""
    ctypes.CDLL(None).prctl(_DROP_BOUNDING_CAPABILITY, _CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.mark.parametrize("record", ["", "{}", "[1]", '[{"name": "web", "pid": "7", "started_at": ""}]'])
def test_quickstart_with_a_damaged_record_of_processes_says_what_to_do(home: Path, record: str) -> None:
    path = write(home / "processes.json", record)
    said = refuse(home, *MANAGE, "quickstart", "--once", f"--port={free_port()}")
    assert f"{path} is damaged" in said
    assert "delete the file and start again" in said


@pytest.mark.parametrize(
    ("command", "key"), [((*MANAGE, "check"), ""), ((*MANAGE, "quickstart"), "x"), (WORKER, "\x00" * 4), (WEB, "")]
)
def test_damaged_secret_key_file_is_refused(home: Path, command: tuple[str, ...], key: str) -> None:
    path = write(home / "secret_key", key)
    said = refuse(home, *command)
    assert f"{path} is damaged" in said
    assert "Restore the file from a backup, or delete it" in said


@pytest.mark.parametrize(
    ("command", "name"), [((*MANAGE, "check"), "ERL_SECRET_KEY"), (WEB, "ERL_SECRET_KEY_FALLBACKS")]
)
def test_short_secret_key_is_refused(home: Path, command: tuple[str, ...], name: str) -> None:
    said = refuse(home, *command, **{"ERL_SECRET_KEY": GOOD_KEY} | {name: "x"})
    assert f"{name} has a key of 1 characters, which can be guessed. Use 50 or more" in said


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ERL_LLM_PROVIDERS", "{", "ERL_LLM_PROVIDERS cannot be read: "),
        ("ERL_LLM_MODELS", "[]", "ERL_LLM_MODELS is not a JSON object"),
        ("ERL_API_MAX_IN_FLIGHT", "many", "ERL_API_MAX_IN_FLIGHT cannot be read: "),
    ],
)
def test_setting_that_cannot_be_read_is_named(home: Path, name: str, value: str, words: str) -> None:
    assert words in refuse(home, *MANAGE, "check", **{name: value})


@pytest.mark.parametrize(
    ("command", "lock"),
    [
        (["embedded", "start"], ""),
        (["migrate"], "garbage\n/data\n"),
        (["verify_audit"], "garbage\n/data\n"),
        (["check", "--running"], ""),
        (["quickstart", "--once"], "\n"),
    ],
)
def test_damaged_lock_of_postgresql_says_what_to_do(home: Path, command: list[str], lock: str) -> None:
    path = write(home / "postgres" / "data" / "postmaster.pid", lock)
    said = refuse(home, *MANAGE, *command, ERL_LISTEN=f"127.0.0.1:{free_port()}")
    assert f"{path} is damaged" in said
    assert "delete that file and start again" in said


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ((*MANAGE, "embedded", "start"), "appendonly.aof.1.base.rdb"),
        ((*MANAGE, "embedded", "start"), "appendonly.aof.1.incr.aof"),
        (WORKER, "appendonly.aof.manifest"),
    ],
)
def test_damaged_append_only_file_says_what_to_do(home: Path, command: tuple[str, ...], file: str) -> None:
    valkey.ensure(home / "valkey", durable=True)
    valkey.stop(home / "valkey")
    folder = home / "valkey" / "appendonlydir"
    assert (folder / file).exists()
    (folder / file).write_text("garbage, and more of it\n")
    said = refuse(home, *command, DATABASE_URL="postgresql://nowhere.invalid/erl")
    assert f"The files in {folder} are damaged" in said
    assert "Delete that folder and start again" in said


@pytest.mark.parametrize(("command", "key"), [("quickstart", ""), ("quickstart", GOOD_KEY), ("migrate", GOOD_KEY)])
def test_read_only_home_says_what_to_do(home: Path, command: str, key: str) -> None:
    home.chmod(0o500)
    said = refuse(home, *MANAGE, command, ERL_SECRET_KEY=key, ERL_LISTEN=f"127.0.0.1:{free_port()}")
    assert f"{home} cannot be used (Permission denied)" in said or f"{home}/postgres cannot be used" in said
    assert "set ERL_HOME to a folder of your own" in said


def test_home_that_is_a_file_says_what_to_do(home: Path) -> None:
    path = write(home / "file", "")
    said = refuse(path / "home", *MANAGE, "quickstart")
    assert "set ERL_HOME to a folder of your own" in said
