"""Every page of the admin with axe-core, in light, in dark and on a narrow screen (WCAG 2.2 AA)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page

from evaluation.experiments.lifecycle import start_experiment
from evaluation.experiments.models import Look
from evaluation.experiments.plan import STEPS, ExperimentPlan
from evaluation.models import EvaluationRun
from memory.curation.decisions import retire_heuristic
from memory.effects.models import HeuristicFeedback
from memory.projects.actors import Actor
from memory.projects.models import Project, ProjectMembership
from memory.releases.deployments import DeploymentChange, change_deployment, cut_release, roll_back, start_canary
from memory.releases.models import Deployment
from memory.review.models import Review
from reflection.llm.models import ModelCall
from tests.e2e.conftest import log_in
from tests.e2e.every_page import list_pages, row_pages
from tests.evaluation.evolution_rows import store_evolution
from tests.factories import (
    approve_as_read,
    make_api_key,
    make_evidence,
    make_heuristic,
    make_member,
    make_project,
    make_reflection,
    make_retrieval,
    make_trajectory,
)
from tests.runtime.rows import store_agent

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
# Everything axe has for WCAG 2.2 A and AA, and its best practices.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ALL = f"{{runOnly: {RULES}, resultTypes: ['violations']}}"
CONTRAST = "{runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}, resultTypes: ['violations']}"
TOO_WIDE = """() => document.documentElement.scrollWidth > innerWidth
  ? [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1
      && !e.closest('.scroll, .results, .visually-hidden')).slice(0, 4).map(e => e.outerHTML.slice(0, 160))
  : []"""
# Lists scroll in a frame of their own; on a laptop they need not.
SCROLLS = """() => document.querySelector('.results')
  ? [document.documentElement, ...document.querySelectorAll('.results')].filter(e => e.scrollWidth > e.clientWidth)
    .map(e => `${e.scrollWidth} px in ${e.clientWidth} px`)
  : []"""
# What a person who goes by the keyboard sees of where they are.
FOCUS = """() => { const e = document.activeElement; if (!e || e === document.body) return '';
  const s = getComputedStyle(e); const outline = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1;
  return outline || s.boxShadow !== 'none' || /^(INPUT|TEXTAREA|SELECT)$/.test(e.tagName) ? ''
    : e.outerHTML.slice(0, 160); }"""


LOOK: dict[str, Any] = {
    "control_units": 400,
    "treated_units": 380,
    "control_mean": 0.5,
    "treated_mean": 0.55,
    "estimate": 0.05,
    "low": -0.02,
    "high": 0.12,
    "e_value": 3.0,
    "ratio_e_value": 2000.0,
    "missing_e_value": 200.0,
    "guardrails": {"success": {"difference": 0.1, "e_value": 120.0, "fired": True, "units": {}}},
    "outcomes": {"control": {"known": 400}, "treated": {"known": 380, "late": 5, "missing": 60}},
    "share": 100,
    "verdict": "continue",
}


def violations(page: Page, options: str) -> list[str]:
    # Tables of Django's inline rows have a column of buttons without a heading.
    ours = "{exclude: [['.inline-group thead']]}"
    result = page.evaluate(f"async () => (await axe.run({ours}, {options})).violations")
    return [
        f"{one['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for one in result
        for node in one["nodes"][:3]
    ]


def examine(page: Page, url: str) -> list[str]:
    """Return what is wrong with a page, in any of its looks."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(url)
    page.evaluate(AXE)
    found = [f"light {each}" for each in violations(page, ALL)]
    found += [f"scrolls {each}" for each in page.evaluate(SCROLLS)]
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found += [f"dark {each}" for each in violations(page, CONTRAST)]
    page.set_viewport_size({"width": 390, "height": 844})
    return found + [f"too wide {each}" for each in page.evaluate(TOO_WIDE)]


def find_wide(page: Page, url: str) -> Any:
    page.goto(url)
    return page.evaluate(TOO_WIDE)


@pytest.fixture
def plain(chromium: BrowserContext) -> Iterator[Page]:
    """A page that may complain: axe tries inline styles, which our content policy stops."""
    chromium.clear_cookies()
    page = chromium.new_page()
    yield page
    page.close()


@pytest.fixture
def reader(plain: Page, live_server: Any) -> Page:
    user = make_member("root", is_superuser=True)
    ProjectMembership.objects.create(user=user, role="operator")
    log_in(plain, live_server, user)
    return plain


@pytest.fixture
def rows(transactional_db: None) -> dict[str, Any]:
    """One of everything, so that no page is empty."""
    project = make_project(name="Airline")
    ana = Actor(label="user:ana")
    near = make_heuristic(project=project, trigger="a refund is asked for", status="proposed")
    approve_as_read(near, by=ana, seconds_on_screen=7.5)
    gone = make_heuristic(project=project, trigger="a seat is asked for")
    approve_as_read(gone, by=ana)
    retire_heuristic(gone, by=Actor(label="user:ben"), reason="The policy changed.")
    retrieval = make_retrieval(project=project, heuristic_ids=[near.pk])
    trajectory = make_trajectory(
        project=project,
        retrieval=retrieval,
        outcome="success",
        score=1,
        summary="Done.",
        mistakes=["Haste."],
        tags=["x"],
    )
    waiting = make_heuristic(project=project, trajectory=trajectory, trigger="a refund is wanted", avoid="Guessing.")
    make_evidence(heuristic=near, trajectory=trajectory)
    HeuristicFeedback.objects.create(
        project=project, heuristic=near, trajectory=trajectory, verdict="followed", client="agent"
    )
    make_api_key(project=project)
    reflection = make_reflection(
        trajectory=trajectory, status="dead", attempts=5, last_error="The provider answered 401."
    )
    ModelCall.objects.create(
        project=project, job=reflection, step="reflect", prompt_sha256="0" * 64, provider="x", model="y"
    )
    EvaluationRun.objects.create(suites=["toolchoice"], status="failed", failure="No data.", finished_at=timezone.now())
    assert Review.objects.count() == 3
    try_release(project)
    store_agent(project, "Refund the ticket.")
    store_evolution()
    return {"heuristics": [waiting, near], "trajectory": trajectory}


def try_release(project: Project) -> None:
    """Try a release until a policy takes it back, which the desk tells of, and again in an experiment."""
    by = Actor.policy("test")
    change = DeploymentChange(mode=Deployment.Mode.RELEASES, holdout_share=100)
    change_deployment(project, by=by, change=change)
    make_heuristic(project=project, trigger="a bag is lost", status="approved")
    release = cut_release(project, by=by, note="Lost bags")
    start_canary(project, release=release, share=100, by=by)
    roll_back(project, by=by, reason="Worse than the control: success.")
    experiment = start_experiment(project, plan=ExperimentPlan(steps=STEPS), by=by, release=release)
    for number in (1, 2):
        Look.objects.create(number=number, experiment=experiment, project=project, **LOOK)


def test_every_page_is_accessible_in_every_look(reader: Page, live_server: Any, rows: dict[str, Any]) -> None:
    paths = list_pages() + row_pages(**rows, django_forms=False)

    found = {path: problems for path in paths if (problems := examine(reader, live_server.url + path))}

    assert found == {}


def test_forms_of_django_fit_on_a_phone(reader: Page, live_server: Any, rows: dict[str, Any]) -> None:
    ours = set(row_pages(**rows, django_forms=False))
    paths = [reverse("admin:auth_user_add"), reverse("admin:auth_group_add")]
    paths += [path for path in row_pages(**rows) if path not in ours]
    reader.set_viewport_size({"width": 390, "height": 844})

    found = {path: wide for path in paths if (wide := find_wide(reader, live_server.url + path))}

    assert found == {}


def test_pages_in_front_of_the_admin_are_accessible(plain: Page, live_server: Any, settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.ERL_ADMIN_OTP = True
    get_user_model().objects.create_superuser("ana", password="correct horse")
    found = examine(plain, f"{live_server.url}/admin/login/")
    plain.fill("#id_username", "ana")
    plain.fill("#id_password", "correct horse")
    plain.click("input[type=submit]")
    plain.wait_for_url("**/second-factor/**")

    found += examine(plain, f"{live_server.url}/admin/second-factor/")

    assert found == []


def test_keyboard_shows_where_it_is(reader: Page, live_server: Any, rows: dict[str, Any]) -> None:
    (waiting, _), trajectory = rows["heuristics"], rows["trajectory"]
    invisible = []
    for path in ("", f"memory/heuristic/{waiting.pk}/change/", f"memory/trajectory/{trajectory.pk}/change/"):
        reader.goto(f"{live_server.url}/admin/{path}")
        for _ in range(30):
            reader.keyboard.press("Tab")
            invisible.append(reader.evaluate(FOCUS))

    assert [each for each in invisible if each] == []
