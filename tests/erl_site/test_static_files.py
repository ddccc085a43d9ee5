"""Static files: their address changes with their content, so browsers need not ask again."""

from pathlib import Path

import pytest
from django.templatetags.static import static
from django.test import Client

from erl_site.web.static_files import hash_static_files


@pytest.mark.django_db
def test_browser_keeps_a_file_for_ever(client: Client) -> None:
    response = client.get(static("erl/shell.css"))

    assert "immutable" in response.headers["Cache-Control"]
    response.close()


def test_address_changes_with_any_file(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("one")
    first = hash_static_files(tmp_path)
    (tmp_path / "a.css").write_text("two")
    second = hash_static_files(tmp_path)
    (tmp_path / "a.css").rename(tmp_path / "b.css")

    assert len({first, second, hash_static_files(tmp_path)}) == 3
