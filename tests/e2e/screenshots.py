"""Take the pictures of the docs from a running stack.

Start `manage.py quickstart` in one terminal; then `python -m tests.e2e.screenshots` writes docs/images/*.png: every
page of docs/reviewing.md in light, dark and on a narrow screen, the others in light. The stack's address and password
come from $ERL_HOME/quickstart.json. Use a fresh ERL_HOME: more runs are recorded, the project is consolidated, the
demonstration evolves, and a release is tried.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Response

from tests.e2e.browser import find_chromium, open_browser
from tests.e2e.screenshot_runs import record_runs, try_release

LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
LAST = {
    "experiment": "evaluation/experiment",
    "deployment": "memory/deployment",
    "evolution": "evaluation/evolution",
}


def first_link(page: Page, selector: str) -> str:
    """Return where the first link in a list leads."""
    return str(page.locator(selector).first.get_attribute("href"))


def find_runs(page: Page, root: str) -> tuple[str, str]:
    """Return the first proposed lesson that has runs as evidence, and the first of these runs."""
    page.goto(f"{root}/admin/memory/heuristic/?status__exact=proposed")
    links = page.locator("th.field-trigger_line a")
    for lesson in [str(link.get_attribute("href")) for link in links.all()]:
        page.goto(root + lesson)
        run = page.locator("#panel-evidence .run header a")
        if run.count():
            return lesson, str(run.first.get_attribute("href"))
    raise SystemExit("No proposed lesson has runs. Start with a fresh ERL_HOME.")


def refuse_error(response: Response) -> None:
    """End with the address of a page that failed, so that no picture shows an error."""
    if response.status >= 400 and response.request.is_navigation_request():
        raise SystemExit(f"{response.url} answered {response.status}.")


def sign_in(page: Page, root: str, stack: dict[str, Any]) -> None:
    page.on("response", refuse_error)
    page.goto(f"{root}/admin/login/")
    page.fill("#id_username", stack["admin_user"])
    page.fill("#id_password", stack["admin_password"])
    page.click("input[type=submit]")
    page.wait_for_url(f"{root}/admin/")


def consolidate(page: Page, root: str) -> None:
    """Consolidate all projects by the action of their list, and wait until a worker has done it."""
    page.goto(f"{root}/admin/memory/project/")
    page.check("#action-toggle")
    page.select_option("select[name=action]", "consolidate")
    page.click("button[name=index]")
    for _ in range(120):
        page.goto(f"{root}/admin/reflection/consolidationrun/?status__exact=done")
        if page.locator("#result_list tbody tr").count():
            return
        page.wait_for_timeout(1_000)
    raise SystemExit("The consolidation is not done after two minutes. Is a worker running?")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path(".erl"), help="ERL_HOME of the running stack (.erl)")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder for the pictures")
    options = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        print("No Chromium was found: install it or set CHROMIUM.", file=sys.stderr)
        return 1
    stack = json.loads((options.home / "quickstart.json").read_text())
    root = stack["admin_url"].removesuffix("/admin/")
    options.out.mkdir(parents=True, exist_ok=True)
    record_runs(stack["base_url"], stack["api_key"])
    environment = os.environ | {"ERL_HOME": str(options.home)}
    subprocess.run([sys.executable, "manage.py", "evolve", "demo"], env=environment, check=True)
    with open_browser(executable) as context:
        page = context.new_page()
        sign_in(page, root, stack)
        consolidate(page, root)
    for look, settings in LOOKS.items():
        with open_browser(executable, **settings) as context:
            page = context.new_page()
            sign_in(page, root, stack)
            desk, trajectory = find_runs(page, root)
            page.goto(f"{root}/admin/memory/heuristic/?status__exact=approved")
            history = first_link(page, "th.field-trigger_line a")
            page.goto(f"{root}/admin/memory/retrieval/?q=")
            answer = first_link(page, "th.field-task_line a")
            page.goto(f"{root}/admin/agents/approval/")
            call = first_link(page, "#result_list tbody th a")
            pages = {
                "home": "/admin/",
                "queue": "/admin/inbox/?kind=lesson&order=oldest",
                "desk": desk,
                "trajectory": trajectory,
                "statistics": "/admin/memory/review/statistics/",
                "reflections": "/admin/reflection/reflection/",
            }
            if look == "light":
                pages |= {"answer": answer, "agent-call": call}
            for name, path in pages.items():
                page.goto(root + path)
                page.wait_for_load_state("networkidle")  # the number beside the inbox
                page.screenshot(path=options.out / f"{name}-{look}.png")
                print(options.out / f"{name}-{look}.png")
            page.goto(root + desk)
            page.keyboard.press("e")
            page.keyboard.press("Control+End")
            page.keyboard.type(" Say so to the customer.")
            page.keyboard.press("Control+Enter")
            page.locator(".edit .diff").scroll_into_view_if_needed()
            page.screenshot(path=options.out / f"diff-{look}.png")
            page.goto(f"{root}{history}{'&' if '?' in history else '?'}tab=history")
            page.screenshot(path=options.out / f"timeline-{look}.png")
            page.goto(root + desk)
            page.keyboard.press("?")
            page.screenshot(path=options.out / f"keyboard-{look}.png")
    with open_browser(executable, **LOOKS["light"]) as context:
        page = context.new_page()
        sign_in(page, root, stack)
        page.goto(f"{root}/admin/memory/mistakecard/scores/")
        page.screenshot(path=options.out / "scores-light.png")
        for name, path in {"mistake-card": "memory/mistakecard", "suggestion": "reflection/suggestion"}.items():
            page.goto(f"{root}/admin/{path}/")
            page.goto(root + first_link(page, "#result_list tbody th a"))
            page.screenshot(path=options.out / f"{name}-light.png")
        page.goto(root + first_link(page, "a[href*='/consolidationrun/0']"))
        page.screenshot(path=options.out / "consolidation-light.png")
        try_release(stack["base_url"], stack["api_key"])
        page.goto(f"{root}/admin/memory/release/")
        page.screenshot(path=options.out / "releases-light.png")
        for name, path in LAST.items():
            page.goto(f"{root}/admin/{path}/")
            page.goto(root + first_link(page, "#result_list tbody th a"))
            page.screenshot(path=options.out / f"{name}-light.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
