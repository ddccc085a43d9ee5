"""A real Chromium for tests and screenshots."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import BrowserContext, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def find_chromium() -> str | None:
    """Find the browser: $CHROMIUM, or `chromium` on the path."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium")


@contextmanager
def open_browser(executable: str, **options: Any) -> Iterator[BrowserContext]:
    """Open a browser with an empty profile; `options` are Playwright's, such as color_scheme and viewport."""
    profile = tempfile.mkdtemp(prefix="erl-chromium-")
    try:
        with sync_playwright() as playwright:
            context = playwright.chromium.launch_persistent_context(
                profile, executable_path=executable, headless=True, args=FLAGS, **options
            )
            yield context
            context.close()
    finally:
        shutil.rmtree(profile, ignore_errors=True)
