"""Texts that try to run in a reviewer's browser: stored everywhere, opened in a real one, and none runs."""

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, Route, expect

from memory.projects.models import ProjectMembership
from tests.e2e.conftest import log_in
from tests.e2e.every_page import list_pages, row_pages
from tests.factories import make_member
from tests.security.hostile_rows import PAYLOADS, store_payloads

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Before any script of the page: what runs is counted, what the content policy stops too.
WATCH = """
window.__ran = []; window.__stopped = [];
window.xss = (...x) => { window.__ran.push(String(x)); };
for (const name of ['alert', 'confirm', 'prompt']) window[name] = window.xss;
document.addEventListener('securitypolicyviolation',
  e => window.__stopped.push(e.violatedDirective + ' ' + e.blockedURI));
"""
# Elements and attributes that only a payload can have brought.
FOREIGN = """() => [
  ...[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on')
    || /^\\s*javascript:/i.test(a.value) && /^(href|src|action|formaction|data|xlink:href)$/.test(a.name))),
  ...document.querySelectorAll('script:not([src]):not([type="application/json"]), script[src^="data:"], iframe, '
    + 'object, embed, base, marquee, math, img[src="x"], video, audio, xss, meta[http-equiv="refresh"]'),
].map(e => e.outerHTML.slice(0, 200))"""


@pytest.fixture
def watched(chromium: BrowserContext) -> Any:
    chromium.clear_cookies()
    page = chromium.new_page()
    page.add_init_script(WATCH)
    dialogs: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    yield page
    page.close()
    assert dialogs == []


def findings(page: Page) -> list[str]:
    ran, stopped = page.evaluate("[window.__ran, window.__stopped]")
    return [f"ran {each}" for each in ran] + [f"stopped {each}" for each in stopped]


def test_no_stored_text_runs_on_any_page(watched: Page, live_server: Any) -> None:
    user = make_member("root", is_superuser=True)
    ProjectMembership.objects.create(user=user, role="operator")
    log_in(watched, live_server, user)
    rows = store_payloads()
    paths = list_pages(all_rows=True) + row_pages(heuristics=[rows.waiting, rows.served], trajectory=rows.trajectory)

    found = {}
    for path in paths:
        answer = watched.goto(live_server.url + path)
        assert answer is not None
        assert answer.status == 200, path
        if problems := findings(watched) + watched.evaluate(FOREIGN):
            found[path] = problems[:5]

    assert found == {}
    assert len(PAYLOADS) == 300
    expect(watched.locator("body")).not_to_be_empty()


@pytest.mark.parametrize(("policy", "runs"), [(False, True), (True, False)])
def test_watch_sees_what_a_careless_page_lets_run(watched: Page, live_server: Any, policy: bool, runs: bool) -> None:
    """Without escaping dozens run; with our content policy in front they are stopped, and that is seen too."""
    header = watched.request.get(f"{live_server.url}/admin/login/").headers["content-security-policy"]
    body = "<!doctype html><meta charset=utf-8>" + "".join(f"<div>{text}</div>" for text in PAYLOADS[:30])

    def answer(route: Route) -> None:
        headers = {"Content-Security-Policy": header} if policy else {}
        route.fulfill(body=body, content_type="text/html", headers=headers)

    watched.route("**/careless", answer)
    watched.goto(f"{live_server.url}/careless")

    problems = findings(watched)
    assert any(each.startswith("ran") for each in problems) == runs
    assert any(each.startswith("stopped") for each in problems) == policy
    assert len(watched.evaluate(FOREIGN)) > 10
