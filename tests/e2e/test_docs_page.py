"""The API's page in a browser: Swagger UI shows every operation, and the content policy stops none of it."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memory.api.documentation import build_document

pytestmark = [pytest.mark.nightly, pytest.mark.browser]


@pytest.mark.django_db(transaction=True)
def test_docs_page_shows_every_operation_and_opens_one(page: Page, live_server: Any) -> None:
    operations = [operation for path in build_document()["paths"].values() for operation in path.values()]

    page.goto(f"{live_server.url}/api/docs")

    expect(page.locator(".opblock")).to_have_count(len(operations))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 390, "height": 720})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#operations-retrieval-retrieveLessons .opblock-summary-control").click()
    expect(page.locator("#operations-retrieval-retrieveLessons")).to_contain_text("409")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
