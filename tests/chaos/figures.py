"""Write what fault runs counted as the table of docs/appendix/reliability.md: `python -m tests.chaos.figures FILE …`.

The files hold the lines of `tests.chaos.run`; of a fault that is in several, the last counts.
"""

import json
import sys
from pathlib import Path
from typing import Any

# What was set out to be shown
ASKED = {
    "F1": "1,000 kills, p99 < 100 ms",
    "F2": "every statement",
    "F3": "8 × 500",
    "F4": "500",
    "F5": "2,000 reflections",
    "F6": "200",
    "F7": "5 × 200, p99 < 150 ms, drained in 60 s",
    "F8": "20 each",
    "F9": "5",
    "F10": "10 × 200",
    "F11": "20 among 500",
    "F12": "20 restarts",
    "F13": "no violation",
    "F14": "100,000 requests",
    "F15": "every operation",
    "F16": "1,000 runs × 10,000 retrievals",
    "F17": "within 5 s",
    "F18": "1,000 secrets",
    "F19": "every rule",
    "F20": "300 texts",
    "F21": "100 canaries",
    "F22": "no error",
    "F23": "2,000 × 50 steps",
    "F24": "20 minutes",
    "F25": "6",
    "F26": "1,000 writes",
}
HIDDEN = {"fault", "what", "passed", "seconds", "failed_tests", "profile", "seed", "load", "work"}


def read(paths: list[Path]) -> dict[str, dict[str, Any]]:
    """Return the last line of each fault."""
    lines = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["fault"]: line for line in lines if "fault" in line}


def row(line: dict[str, Any]) -> str:
    said = {name: value for name, value in line.items() if name not in HIDDEN}
    counted = ", ".join(f"{name.replace('_', ' ')} {_words(value)}" for name, value in said.items())
    verdict = "" if line["passed"] else "**failed**: "
    return f"| {line['fault']} | {line['what']} | {verdict}{counted} | {ASKED[line['fault']]} | {line['seconds']:.0f} |"


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {_words(each)}" for name, each in value.items()) + ")"
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    found = read([Path(each) for each in sys.argv[1:]])
    print("| fault | what was done | counted | asked | s |\n| --- | --- | --- | --- | --- |")
    for name in ASKED:
        if name in found:
            print(row(found[name]))


if __name__ == "__main__":
    main()
