"""The documentation's links lead somewhere, and no tracked file knows the machine it was written on."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
# In pieces, so that this file does not contain what it looks for.
FORBIDDEN = {
    "a folder of the machine it was written on": "|".join(
        ["/wor" + "k/", "/roo" + "t/", "/home/(?!djangoprojects)[a-z]+/"]
    ),
    "the address of a package index": "|".join(
        ["pypi\\.o" + "rg", "files\\.pythonhos" + "ted", "index-u" + "rl ?=", "registry\\.np" + "mjs"]
    ),
    "who or what wrote it": "|".join(["Co-Authored-" + "By", "Generated wi" + "th", "TO" + "DO:"]),
}
# Data that others wrote, and lists of addresses to refuse
EXEMPT = (
    "tests/data/",
    "bench/domains/tool_calls/",
    "memory/sample_data/",
    "memory/embeddings/data/",
    "tests/reflection/data/",
)


def tracked_files() -> list[str]:
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    return [name for name in listed.split("\0") if name]


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(line.lstrip("#")) for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("#")}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n[a](#title) [b](page.md#none) [c](none.md) `[d](none.md)` [e](https://example.com)")

    assert broken_links(page) == ["page.md#none", "none.md"]


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_can_be_found_from_the_index(page: Path) -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")

    assert page.name == "README.md" or str(page.relative_to(ROOT / "docs")) in index


@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_tracked_files_do_not_contain(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = []
    for name in tracked_files():
        path = ROOT / name
        if name.startswith(EXEMPT) or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{name}:{number}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]

    assert found == []


def test_the_lock_file_with_its_addresses_is_not_tracked() -> None:
    assert "uv.lock" not in tracked_files()
    assert ".env" not in tracked_files()


def test_commands_of_the_documentation_exist() -> None:
    """Every `manage.py NAME` that a page tells its reader to run."""
    named = {name for page in PAGES for name in re.findall(r"manage\.py ([a-z_]+)", page.read_text(encoding="utf-8"))}
    ours = {path.stem for path in ROOT.glob("*/management/commands/*.py")}
    django = {
        "check",
        "migrate",
        "createsuperuser",
        "spectacular",
        "shell",
        "makemigrations",
        "dumpdata",
        "changepassword",
        "axes_reset",
    }

    assert named - ours - django == set()
