"""The client in TypeScript, built as a user builds it."""

import shutil
import subprocess
from pathlib import Path

from tests.programs import require_program

SOURCE = Path(__file__).resolve().parents[2] / "clients" / "typescript"
OLDEST_NODE = 20


def build_package(folder: Path) -> Path:
    """Build the package in a new folder, with the SDKs that its lock file pins and its compiled tests."""
    node, npm = require_program("node"), require_program("npm")
    version = call(node, "--version")
    assert int(version[1:].split(".")[0]) >= OLDEST_NODE, f"The client needs Node {OLDEST_NODE}; {node} is {version}"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "build", "*.tgz"))
    call(npm, "ci", "--no-audit", "--no-fund", cwd=folder)  # which builds it
    call(npm, "run", "check", cwd=folder)
    call(npm, "run", "pretest", cwd=folder)
    return folder


def call(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None, seconds: int = 300) -> str:
    """Run a program and return what it wrote; the test fails with that where the program does."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=seconds)
    output = (done.stdout + done.stderr).strip()
    assert done.returncode == 0, f"{' '.join(command)}\n{output}"
    return output
