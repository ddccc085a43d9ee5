"""docs/operating.md names an alarm for every fault, with metrics and log lines that exist."""

import re
from io import StringIO

import pytest
from django.core.management import call_command
from prometheus_client.parser import text_string_to_metric_families

from tests.stack import PACKAGES, ROOT

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
# What a deployment meets; the other faults are mistakes of programming or attacks that end at the door.
FAULTS = ("F1", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12", "F13", "F14", "F16", "F17", "F21", "F22")
_FIGURE = re.compile(r"\berl_[a-z_]+\b")
_EVENT = re.compile(r"`([a-z]+(?:_[a-z]+)+)`")
_ROW = re.compile(r"^\| (F\d+(?:, F\d+)*): [^|]+ \| ([^|]+) \|$", re.M)


def figures() -> set[str]:
    """Return what a scrape can name; counters end in _total there."""
    output = StringIO()
    call_command("serve_metrics", "--once", stdout=output)
    families = text_string_to_metric_families(output.getvalue())
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families}


def events() -> str:
    """Return the code that logs, with the events of jobs as those of a reflection are named."""
    code = "\n".join(path.read_text(encoding="utf-8") for app in PACKAGES for path in (ROOT / app).rglob("*.py"))
    return re.sub(r'\bjob\.event\("(\w+)"\)', r'"reflection_\1"', code)


@pytest.mark.django_db
def test_every_figure_that_the_page_names_exists() -> None:
    named = {name for name in _FIGURE.findall(PAGE) if name != "erl_site"}

    assert len(named) > 8
    assert named - figures() == set()


def test_every_log_line_that_the_page_names_exists() -> None:
    code = events()
    named = {name for name in _EVENT.findall(PAGE) if not name.startswith("erl_")}

    assert len(named) > 10
    assert [name for name in sorted(named) if f'"{name}"' not in code and f"def {name}" not in code] == []


def test_every_fault_that_a_deployment_can_meet_shows_somewhere() -> None:
    shown = {fault: alarm for faults, alarm in _ROW.findall(PAGE) for fault in faults.split(", ")}

    assert [
        fault for fault in FAULTS if not _FIGURE.search(shown.get(fault, "")) and "`" not in shown.get(fault, "")
    ] == []
