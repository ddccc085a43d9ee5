"""A reviewer in front of a browser."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.test import Client
from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from memory.projects.models import ProjectMembership
from tests.e2e.browser import find_chromium, open_browser
from tests.factories import make_member


@pytest.fixture(scope="session", autouse=True)
def _product_serves_its_files() -> Iterator[None]:
    """Let the product's middleware serve the static files: those of the test server may not be kept by a browser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticFilesHandler, "_should_handle", lambda self, path: False)
        yield


@pytest.fixture(scope="module")
def chromium() -> Iterator[BrowserContext]:
    """A browser for one module: while it is open, no test of this process can run an event loop of its own."""
    executable = find_chromium()
    if executable is None:
        if os.environ.get("CI") == "true":
            pytest.fail("No Chromium is installed: install it (apt-get install chromium) or set CHROMIUM.")
        pytest.skip("No Chromium is installed; the browser tests need one (apt-get install chromium).")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # Playwright's sync API keeps an event loop in this thread
    with open_browser(executable, viewport={"width": 1280, "height": 900}) as context:
        yield context
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def page(chromium: BrowserContext) -> Iterator[Page]:
    """A fresh page; the test fails if the page reports an error, such as a violation of its content policy."""
    chromium.clear_cookies()
    page = chromium.new_page()
    page.set_viewport_size({"width": 1280, "height": 900})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if _is_complaint(message) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    yield page
    page.close()
    assert complaints == []


def _is_complaint(message: ConsoleMessage) -> bool:
    """Tell whether a page is wrong; a decision that the server refuses is not, though the browser logs it."""
    is_refusal = message.text.endswith(("status of 409 (Conflict)", "status of 422 (Unprocessable Entity)"))
    return message.type == "error" and not is_refusal


@pytest.fixture
def reviewer(transactional_db: None) -> Any:
    names = ["review_heuristic", "view_heuristic", "view_trajectory", "view_reflection", "view_retrieval"]
    names += ["requeue_reflection", "view_review", "view_project"]
    user = make_member("ana", permissions=names)
    ProjectMembership.objects.create(user=user, role="operator")
    return user


@pytest.fixture
def desk(page: Page, live_server: Any, reviewer: Any) -> Page:
    """A page on which the reviewer is logged in."""
    log_in(page, live_server, reviewer)
    return page


def log_in(page: Page, live_server: Any, user: Any) -> None:
    """Give the browser a session of this person."""
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    page.context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": live_server.url}])
