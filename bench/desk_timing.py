"""What deciding in the inbox costs a browser: the time to the next item, and the requests of a page."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page

# From a key press to the first frame in which another item is on the screen.
TIMER = """() => {
  addEventListener('keydown', () => { window.__pressed = performance.now(); window.__shown = 0; }, true);
  new MutationObserver(changes => {
    if (changes.some(change => [...change.addedNodes].some(node => node.id === 'item')))
      requestAnimationFrame(() => setTimeout(() => { window.__shown = performance.now() - window.__pressed; }));
  }).observe(document.querySelector('.inbox'), {childList: true});
}"""
# What a load of the page fetched over the network; what came from the cache has no size.
REQUESTS = """() => 1 + performance.getEntriesByType('resource').filter(each => each.transferSize > 0).length"""
# Decisions are sent while the next item is read: whether this many were answered.
SAVED = r"""decisions => performance.getEntriesByType('resource')
  .filter(each => /\/inbox\/lesson\/[0-9a-f-]{36}\/(\?|$)/.test(each.name)).length >= decisions"""
READING_MS = 400
ALONE = 10  # approvals that are timed without the items ahead
# The fields of an item's form, as they are sent.
FIELDS = """html => Object.fromEntries(new FormData(
  new DOMParser().parseFromString(html, 'text/html').querySelector('form')))"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What the browser saw: the times from key press to the next item, and the requests of a page.

    `cpu_ms` is the processor time of the server for a decision and the items fetched ahead, `alone_ms` for an approval
    without them.
    """

    milliseconds: list[float]
    requests: int
    cpu_ms: float
    alone_ms: float


def measure_decisions(
    page: Page, root: str, *, decisions: int, read_cpu_seconds: Callable[[], float] = time.process_time
) -> Measured:
    """Load the inbox with a warm cache, and decide on lessons by keyboard alone. The page is signed in.

    Args:
        read_cpu_seconds: returns the processor time that the server has used so far.
    """
    taken = []
    page.goto(f"{root}/admin/inbox/?kind=lesson")
    page.wait_for_load_state("networkidle")
    # The second load meets a warm cache, as a reviewer's browser has it.
    page.reload()
    page.wait_for_load_state("networkidle")
    requests = int(page.evaluate(REQUESTS))
    page.evaluate(TIMER)
    used = read_cpu_seconds()
    for number in range(decisions):
        before = page.get_attribute("#item", "data-item")
        # The next ones are fetched meanwhile, as while a person reads.
        page.wait_for_timeout(READING_MS)
        # Words have to have been on the screen before they can be approved.
        page.evaluate("for (const each of document.querySelectorAll('.words *')) each.scrollIntoView()")
        if number % 3 == 2:
            page.keyboard.press("r")
            page.keyboard.press("1")
        else:
            page.keyboard.press("a")
        page.wait_for_function(
            "before => document.getElementById('item').dataset.item !== before && window.__shown > 0", arg=before
        )
        taken.append(float(page.evaluate("window.__shown")))
    # Decisions are sent in the background; CPU is read only after the last was answered.
    page.wait_for_function(SAVED, arg=decisions)
    cpu_ms = 1000 * (read_cpu_seconds() - used) / decisions
    alone_ms = _measure_alone(page, root, read_cpu_seconds=read_cpu_seconds)
    return Measured(milliseconds=sorted(taken), requests=requests, cpu_ms=cpu_ms, alone_ms=alone_ms)


def _measure_alone(page: Page, root: str, *, read_cpu_seconds: Callable[[], float]) -> float:
    """Approve some of what is listed, by requests that ask for no further item; return the milliseconds for each."""
    page.reload()
    keys = page.locator(".row[data-item]").evaluate_all("rows => rows.map(row => row.dataset.item)")
    forms = {}
    for key in keys[:ALONE]:
        panes = page.request.get(f"{root}/admin/inbox/ahead/", params={"item": key}).json()["panes"]
        forms[key] = page.evaluate(FIELDS, panes[key])
    used = read_cpu_seconds()
    for key, fields in forms.items():
        answer = page.request.post(
            f"{root}/admin/inbox/{key}/",
            form=fields | {"decision": "approve"},
            headers={"Accept": "application/json"},
        )
        if not answer.ok:
            raise SystemExit(f"Approving {key} was answered with {answer.status}: {answer.text()[:300]}")
    return 1000 * (read_cpu_seconds() - used) / len(forms)
