"""The last release beside the code that is here: both run as processes on one database and one broker."""

import json
import os
import subprocess
import sys
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stack import ROOT, Stack

# What was released last: its code without tests, documentation and clients. Moved on at each release, with RELEASED in
# tests/test_migrations.py: `git archive v1.0.0 -- . ':!tests' ':!bench' ':!docs' ':!clients' ':!evaluation/data' | xz`.
# A file, since a clone may have no history.
LAST_RELEASE = "1.0.0"
CODE = ROOT / "tests" / "data" / "releases" / f"{LAST_RELEASE}.tar.xz"


def unpack_last_release(folder: Path) -> Path:
    """Put the code of the last release into a folder."""
    with tarfile.open(CODE) as files:
        files.extractall(folder, filter="data")
    return folder


@dataclass(kw_only=True)
class Version(Stack):
    """A web server and a worker of one version. `root` is where its code is."""

    root: Path
    token: str = ""

    def manage(self, *arguments: str) -> str:
        """Run a command of manage.py, which has to succeed, and return what it printed."""
        command = [sys.executable, "manage.py", *arguments]
        environment = os.environ | self.environment
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request to the API of this version, and return its answer; it has to succeed."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base_url}/api/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
        return answer
