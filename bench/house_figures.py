"""How large the project is: lines by room, modules, settings, migrations, SQL functions, tests.

    uv run python -m bench.house_figures [--json FILE] [--against FILE]

Source is every .py of manage.py and of the apps without migrations; migrations and .sql files are counted apart; a line
is a line, blank ones and comments included. Rooms are the packages of two levels. Empty modules do not count as
modules. A setting is a name that erl_site/settings.py reads from the environment. SQL functions and triggers are those
of a migrated database, without those of extensions; tests are those pytest collects.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from bench.request_paths import throw_away_installation  # isort: skip  # sets Django up
from django.db import connection

from tests.stack import PACKAGES, ROOT

SETTING = re.compile(r"env\.\w+\(\s*\"([A-Z][A-Z0-9_]+)\"")
IN_FORCE = """
SELECT (SELECT count(*) FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')),
       (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal)
"""
COLLECTED = re.compile(r"(\d+)(?:/\d+)? tests? collected")


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def find_room(path: Path) -> str:
    """Return the package of at most two levels that a module lies in."""
    parts = path.relative_to(ROOT).parts[:-1]
    return ".".join(parts[:2]) or "manage.py"


def count_tests() -> int:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = COLLECTED.search(done.stdout)
    if found is None:
        raise SystemExit(f"pytest collected nothing:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return int(found[1])


def count_sql() -> tuple[int, int]:
    """Return the functions and triggers of a database that was just migrated."""
    with throw_away_installation(), connection.cursor() as cursor:
        cursor.execute(IN_FORCE)
        functions, triggers = cursor.fetchone()
    return functions, triggers


def measure() -> dict[str, Any]:
    python = [ROOT / "manage.py", *(path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")))]
    migrations = [path for path in python if "migrations" in path.parts]
    sql = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.sql"))]
    sizes = {path: count_lines(path) for path in python if path not in migrations}
    sources, rooms = {path: size for path, size in sizes.items() if size}, Counter[str]()
    for path, size in sources.items():
        rooms[find_room(path)] += size
    largest = max(sources, key=lambda path: sources[path])
    functions, triggers = count_sql()
    return {
        "source lines": sum(sources.values()),
        "modules": len(sources),
        "median module, lines": statistics.median(sources.values()),
        "largest module, lines": sources[largest],
        "largest module": str(largest.relative_to(ROOT)),
        "modules under 30 lines": sum(size < 30 for size in sources.values()),
        "migrations": sum(path.name != "__init__.py" for path in migrations),
        "lines of migrations": sum(map(count_lines, migrations)),
        "lines of .sql": sum(map(count_lines, sql)),
        "SQL functions": functions,
        "SQL triggers": triggers,
        "settings": len(set(SETTING.findall((ROOT / "erl_site" / "settings.py").read_text()))),
        "lines of tests": sum(count_lines(path) for path in (ROOT / "tests").rglob("*.py")),
        "tests": count_tests(),
        "rooms": dict(sorted(rooms.items())),
    }


def print_figures(figures: dict[str, Any], before: dict[str, Any] | None) -> None:
    """Print all figures as a table, those of before in a column of their own."""
    rows = {name: value for name, value in figures.items() if name != "rooms"}
    old = dict(before or {})
    rows |= {f"lines of {room}": lines for room, lines in figures["rooms"].items()}
    old |= {f"lines of {room}": lines for room, lines in old.pop("rooms", {}).items()}
    print("| figure | before | now |\n| --- | --- | --- |" if before else "| figure | now |\n| --- | --- |")
    for name in dict.fromkeys([*rows, *old]):
        cells = [name, *([str(old.get(name, "–"))] if before else []), str(rows.get(name, "–"))]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    parser.add_argument("--against", type=Path, help="Compare with an earlier file of --json.")
    options = parser.parse_args()
    figures = measure()
    print_figures(figures, json.loads(options.against.read_text()) if options.against else None)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
