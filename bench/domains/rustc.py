"""Compiler errors: what the Rust compiler prints for a faulty program, and its explanation of that kind of error."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

from bench.domains.pairs import Page, Pairs, Question, join_lines

LAST_CODE = 999
MESSAGES_PER_CODE = 2
_CODE_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK_TARGET = re.compile(r"^\[[^\]]+\]: \S+$", re.MULTILINE)
_LEAD_IN = re.compile(r"(?:Erroneous|Example of erroneous|Invalid) code examples?(?: \d)?:")
_NO_LONGER = "#### Note: this error code is no longer emitted by the compiler"


def read_pairs(package: Path) -> Pairs:
    """A Rust toolchain: `bin/rustc` explains each error code, and compiles the faulty programs it shows."""
    rustc = package / "bin" / "rustc"
    pages, questions = [], []
    for number in range(1, LAST_CODE + 1):
        code = f"E{number:04}"
        answer = subprocess.run([rustc, "--explain", code], capture_output=True, text=True, check=False)
        # An error that is no longer emitted has no message to ask with.
        if answer.returncode or answer.stdout.startswith(_NO_LONGER):
            continue
        title, text = get_prose(answer.stdout)
        pages.append(Page(key=code, title=title, text=text or title))
        messages = [compile_faulty(rustc, program, code) for program in _CODE_BLOCK.findall(answer.stdout)]
        for position, message in enumerate(list(dict.fromkeys(filter(None, messages)))[:MESSAGES_PER_CODE], start=1):
            questions.append(Question(key=f"error-{code}-{position}", text=message, answers=[code]))
    return Pairs(pages=pages, questions=questions)


def get_prose(explanation: str) -> tuple[str, str]:
    """Return the first paragraph and the others, without programs: their comments repeat the compiler's messages."""
    prose = _LEAD_IN.sub("", _LINK_TARGET.sub("", _CODE_BLOCK.sub("", explanation)))
    title, *rest = [paragraph for text in prose.split("\n\n") if (paragraph := join_lines(text))]
    return title, " ".join(rest)


def compile_faulty(rustc: Path, program: str, code: str) -> str:
    """Return the compiler's message of this error with its labels, or "" if it reports another one."""
    command = [
        str(rustc),
        "--edition=2021",
        "--crate-type=lib",
        "--emit=metadata",
        "--error-format=json",
    ]
    # rustc replaces the file it writes, and as root even /dev/null.
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [*command, "--out-dir", folder, "-"],
            input=program,
            env={"RUSTC_BOOTSTRAP": "1", "PATH": os.environ["PATH"]},  # examples use unstable features
            capture_output=True,
            text=True,
            check=False,
        )
    for line in result.stderr.splitlines():
        report = json.loads(line) if line.startswith("{") else {}
        # The program may be faulty in more ways than the one it shows.
        if (report.get("code") or {}).get("code") == code:
            labels = [span["label"] for span in report["spans"] if span["label"]]
            return join_lines("; ".join(dict.fromkeys([report["message"], *labels])))
    return ""
