"""GET /api/docs: Swagger UI from our own server, under the strict content policy."""

from html.parser import HTMLParser

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders


class Page(HTMLParser):
    """Collects what a page loads and runs inline."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.loads += [found[name] for name in ("src", "href") if name in found and tag in ("script", "link", "img")]
        self.inline += [name for name in found if name == "style" or name.startswith("on")]
        self.inline += [tag] if tag == "style" or (tag == "script" and "src" not in found) else []


@pytest.fixture
def response(client):
    return client.get("/api/docs")


def test_docs_page_needs_no_key(response):
    assert response.status_code == 200
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert response["X-Request-ID"]


def test_docs_page_loads_only_from_this_server_and_runs_nothing_inline(response):
    page = Page(response.content.decode())

    assert page.loads
    assert all(address.startswith(settings.STATIC_URL) for address in page.loads)
    assert page.inline == []
    assert "script-src 'self'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]


def test_docs_page_files_exist(response):
    page = Page(response.content.decode())

    assert [address for address in page.loads if finders.find(address.removeprefix(settings.STATIC_URL)) is None] == []


def test_docs_page_with_unknown_parameter_answers_400(client):
    assert client.get("/api/docs?colour=red").status_code == 400


def test_docs_page_takes_no_post(client):
    assert client.post("/api/docs").status_code == 405
