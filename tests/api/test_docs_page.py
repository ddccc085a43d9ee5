"""GET /api/docs: the whole API on one page that needs nothing from elsewhere."""

import re
from html.parser import HTMLParser

import pytest
from django.contrib.staticfiles import finders

from memory.api.docs_page import build_sections, split_code
from memory.api.documentation import build_document


class Page(HTMLParser):
    """Collects what a page loads, runs inline and names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.loads += [found[name] for name in ("src", "href") if name in found and tag in ("script", "link", "img")]
        self.links += [found["href"]] if tag == "a" else []
        self.ids += [found["id"]] if "id" in found else []
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
    assert all(address.startswith("/static/") for address in page.loads)
    assert page.inline == []
    assert "script-src 'self'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]


def test_docs_page_files_exist(response):
    page = Page(response.content.decode())

    assert [address for address in page.loads if finders.find(address.removeprefix("/static/")) is None] == []


def test_docs_page_shows_every_operation_once(response):
    page = Page(response.content.decode())
    names = [operation["operationId"] for path in build_document()["paths"].values() for operation in path.values()]

    assert len(page.ids) == len(set(page.ids))
    assert set(names) <= set(page.ids)


def test_docs_page_links_lead_somewhere(response):
    page = Page(response.content.decode())

    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_docs_page_shows_a_curl_for_every_operation_and_a_body_for_every_one_that_takes_one(response):
    operations = [operation for section in build_sections(build_document()) for operation in section.operations]

    assert all(operation.curl.startswith("curl ") for operation in operations)
    assert [operation.id for operation in operations if operation.body and "-d " not in operation.curl] == []


def test_docs_page_names_this_server(response):
    assert "export ERL_URL=http://testserver" in response.content.decode()


def test_docs_page_says_what_each_operation_answers():
    operations = {one.id: one for section in build_sections(build_document()) for one in section.operations}
    retrieve = operations["retrieveLessons"]

    assert retrieve.scopes == ["retrieve"]
    assert [member.name for member in retrieve.body if member.required] == ["task"]
    assert '"context":' in retrieve.answers[0].example
    assert [error.status for error in retrieve.errors] == [
        "400",
        "401",
        "403",
        "404",
        "406",
        "409",
        "410",
        "413",
        "415",
        "429",
        "500",
        "503",
    ]


def test_docs_page_shows_nested_members():
    operations = {one.id: one for section in build_sections(build_document()) for one in section.operations}
    names = [member.name for member in operations["recordTrajectory"].body]

    assert {"mistake_cards[].mistake_type", "steps", "score"} <= set(names)


def test_docs_page_marks_code():
    assert split_code("Send `a` or `b`.") == ((False, "Send "), (True, "a"), (False, " or "), (True, "b"), (False, "."))


def test_docs_page_with_unknown_parameter_answers_400(client):
    assert client.get("/api/docs?colour=red").status_code == 400


def test_docs_page_takes_no_post(client):
    assert client.post("/api/docs").status_code == 405


def test_docs_page_has_no_empty_type(response):
    assert re.findall(r"<td>\s*</td><td>\s*</td>", response.content.decode()) == []
