"""How large the project is and how it is written: lines by room, tables, settings, commands, style, tests.

    uv run python -m bench.house_figures [--json FILE] [--against FILE]
    uv run python -m bench.house_figures --tree CHECKOUT --packages memory agents …    # of files alone, no database

Source is every .py of manage.py and of the apps without migrations; migrations and .sql files are counted apart; a line
is a line, blank ones and comments included. Rooms are the packages of two levels. Empty modules do not count as
modules. A setting is a name that erl_site/settings.py reads from the environment. Tables, SQL functions and triggers
are those of a migrated database, without those of extensions; tests are those pytest collects.

Own-line comments and conditional expressions are counted per 1,000 lines. A class name has several meanings if classes
of that name are defined in several modules; those nested in others, such as Meta, are not counted.
"""

import argparse
import ast
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.request_paths import throw_away_installation  # isort: skip  # sets Django up
from django.contrib import admin
from django.db import connection

from tests.stack import PACKAGES, ROOT

SETTING = re.compile(r"env\.\w+\(\s*\"([A-Z][A-Z0-9_]+)\"")
IN_FORCE = """
SELECT (SELECT count(*) FROM pg_class c WHERE relkind IN ('r', 'p') AND NOT relispartition
            AND relnamespace = 'public'::regnamespace AND relname ~ '^(memory|reflection|agents|evaluation|erl)_'),
       (SELECT count(*) FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')),
       (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgparentid = 0)  -- partitions have copies
"""
COLLECTED = re.compile(r"(\d+)(?:/\d+)? tests? collected")


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def find_room(path: Path, root: Path) -> str:
    """Return the package of at most two levels that a module lies in."""
    parts = path.relative_to(root).parts[:-1]
    return ".".join(parts[:2]) or "manage.py"


def count_tests() -> int:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    match = COLLECTED.search(done.stdout)
    if match is None:
        raise SystemExit(f"pytest collected nothing:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return int(match[1])


def count_database() -> dict[str, int]:
    """Return the tables, functions and triggers of a database that was just migrated, and how many the admin shows."""
    admin.autodiscover()
    with throw_away_installation(), connection.cursor() as cursor:
        cursor.execute(IN_FORCE)
        tables, functions, triggers = cursor.fetchone()
    return {
        "tables": tables,
        "SQL functions": functions,
        "SQL triggers": triggers,
        "tables with pages": len(admin.site._registry),
    }


def measure_style(sources: list[Path]) -> dict[str, Any]:
    """Return how the modules are written, from their syntax trees."""
    lengths: list[int] = []
    homes: dict[str, set[Path]] = {}
    counts = Counter[str]()
    for path in sources:
        text = path.read_text()
        counts["lines"] += text.count("\n")
        counts["characters"] += len(text)
        counts["comments"] += sum(line.lstrip().startswith("#") for line in text.splitlines())
        tree = ast.parse(text)
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                # Only classes of a module itself: each model has a class Meta in it.
                homes.setdefault(statement.name, set()).add(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths.append((node.end_lineno or node.lineno) - node.lineno + 1)
                counts["private"] += node.name.startswith("_") and not node.name.startswith("__")
            elif isinstance(node, ast.IfExp):
                counts["conditional"] += 1
            elif isinstance(node, ast.ClassDef):
                counts["dataclasses"] += any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    return {
        "functions": len(lengths),
        "mean function, lines": round(statistics.mean(lengths), 1),
        "functions over 40 lines, %": round(100 * sum(length > 40 for length in lengths) / len(lengths), 1),
        "private functions, %": round(100 * counts["private"] / len(lengths)),
        "own-line comments per 1,000 lines": round(1000 * counts["comments"] / counts["lines"], 1),
        "conditional expressions per 1,000 lines": round(1000 * counts["conditional"] / counts["lines"], 1),
        "dataclasses": counts["dataclasses"],
        "characters a line": round(counts["characters"] / counts["lines"], 1),
        "class names with several meanings": sum(len(places) > 1 for places in homes.values()),
    }


def measure_files(root: Path, packages: Iterable[str]) -> dict[str, Any]:
    """Return what the files of a checkout say."""
    python = [root / "manage.py", *(path for name in packages for path in sorted((root / name).rglob("*.py")))]
    # Migrations are written by a machine and say nothing about style.
    migrations = [path for path in python if "migrations" in path.parts]
    sql = [path for name in packages for path in sorted((root / name).rglob("*.sql"))]
    sizes = {path: count_lines(path) for path in python if path not in migrations}
    sources, rooms = {path: size for path, size in sizes.items() if size}, Counter[str]()
    for path, size in sources.items():
        rooms[find_room(path, root)] += size
    largest = max(sources, key=lambda path: sources[path])
    operations = re.findall(r"^\s+operationId:", (root / "docs" / "openapi.yaml").read_text(), re.MULTILINE)
    return {
        "source lines": sum(sources.values()),
        "modules": len(sources),
        "median module, lines": statistics.median(sources.values()),
        "largest module, lines": sources[largest],
        "largest module": str(largest.relative_to(root)),
        "modules under 30 lines": sum(size < 30 for size in sources.values()),
        "migrations": sum(path.name != "__init__.py" for path in migrations),
        "lines of migrations": sum(map(count_lines, migrations)),
        "lines of .sql": sum(map(count_lines, sql)),
        "operations": len(operations),
        "commands": sum(path.parent.name == "commands" and path.stem != "__init__" for path in sources),
        "settings": len(set(SETTING.findall((root / "erl_site" / "settings.py").read_text()))),
        **measure_style([*sources]),
        "lines of tests": sum(count_lines(path) for path in (root / "tests").rglob("*.py")),
        "rooms": dict(sorted(rooms.items())),
    }


def measure() -> dict[str, Any]:
    return measure_files(ROOT, [*PACKAGES, "clients"]) | count_database() | {"tests": count_tests()}


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
    parser.add_argument("--tree", type=Path, help="Measure the files of this checkout instead, and no database.")
    parser.add_argument("--packages", nargs="+", default=[*PACKAGES, "clients"], help="The packages of that checkout.")
    options = parser.parse_args()
    figures = measure_files(options.tree.resolve(), options.packages) if options.tree else measure()
    print_figures(figures, json.loads(options.against.read_text()) if options.against else None)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
