"""The pages of experiments, and what they add to those of releases, deployments and lessons."""

import re
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from evaluation.experiments.looks import take_look
from evaluation.experiments.models import Experiment
from memory.projects.models import ProjectMembership
from memory.releases.deployments import get_deployment
from memory.retrieval.models import Retrieval
from tests.evaluation.experiment_rows import PLAN, Traffic, make_deployed, make_experiment, make_held_out
from tests.factories import make_member, make_project
from tests.memory.effect_rows import make_lesson, record_observed, record_units

pytestmark = pytest.mark.django_db
SEES = ("view_release", "view_deployment", "view_experiment", "view_heuristic")
DEPLOYS = (*SEES, "deploy_release")
HOSTILE = "<script>alert(1)</script>"


def log_in(username: str = "ana", **options: Any) -> Client:
    client = Client()
    client.force_login(make_member(username, **{"permissions": DEPLOYS} | options))
    return client


def read(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def address(experiment: Experiment) -> str:
    return reverse("admin:evaluation_experiment_change", args=[experiment.pk])


def look_twice(experiment: Experiment, **traffic: Any) -> None:
    sender = Traffic(experiment=experiment, **traffic)
    for _ in range(2):
        sender.send(150)
        take_look(experiment.pk)


def test_page_begins_with_a_sentence_and_draws_the_interval() -> None:
    experiment = make_experiment()
    look_twice(experiment, lost={"candidate": 0.2, "stable": 0.2})

    page = read(log_in(), address(experiment))

    assert "Not known yet whether Release 2 helps: " in page
    assert 'aria-label="Difference in points by number of runs' in page
    assert "Planned: at most 5,000 units" in page
    assert "no sign of a fault" in page
    assert "Failed runs" in page
    assert "Waiting for one" in page
    assert "What it cannot tell yet" in page


def test_outcomes_that_only_one_arm_awaits_are_the_headline() -> None:
    """Three of ten runs of the candidate have no outcome yet, which may come within a day."""
    experiment = make_experiment()
    look_twice(experiment, lost={"candidate": 0.3})

    page = read(log_in(), address(experiment))

    assert "Nothing can be said about Release 2: outcomes are missing in " in page
    assert "that may still come included" in page
    assert 'Without an outcome that counts</th><td class="number">0.0%</td><td class="number">0.0%' not in page


def test_home_counts_experiments_with_an_alarm() -> None:
    client = log_in()
    assert "experiments with an alarm" not in read(client, reverse("admin:index"))

    look_twice(make_experiment(), lost={"candidate": 0.3})

    assert "experiments with an alarm" in read(client, reverse("admin:index"))


def test_outcomes_that_never_vary_are_the_headline() -> None:
    experiment = make_experiment()
    look_twice(experiment, base=1.0)

    page = read(log_in(), address(experiment))

    assert "Nothing can be learnt about Release 2: Every outcome so far is the same" in page


def look_at_opposite_families() -> Experiment:
    experiment = make_experiment()
    for family, lift in (("airline", 0.3), ("retail", -0.3)):
        Traffic(experiment=experiment, lift=lift).send(300, task_id=family)
        Retrieval.objects.filter(task_id="airline.cancel").update(task_id=family)
    take_look(experiment.pk)
    return experiment


@pytest.mark.parametrize("ask", ["", "?ask=promote"])
def test_opposite_effects_in_families_are_said_where_people_promote(ask: str) -> None:
    experiment = look_at_opposite_families()

    page = read(log_in(), reverse("admin:memory_deployment_of", args=[experiment.project_id]) + ask)

    assert "The effects are opposite in task families" in page


def test_opposite_effects_in_families_are_an_alarm() -> None:
    experiment = look_at_opposite_families()

    page = read(log_in(), address(experiment))

    assert "The effects are opposite in task families" in page
    assert '<th scope="row">airline</th><td>+' in page
    assert '<th scope="row">retail</th><td>-' in page


def test_promotion_says_which_experiment_it_ends() -> None:
    experiment = make_experiment()
    look_twice(experiment)

    asked = read(log_in(), reverse("admin:memory_deployment_of", args=[experiment.project_id]) + "?ask=promote")

    assert (
        "Experiment 1 is running and ends for good, without a verdict. Not known yet whether Release 2 helps" in asked
    )


def test_uplift_with_too_few_units_shows_no_figure() -> None:
    make_held_out(units=77, base=0.2, lift=0.6)

    page = read(log_in(), reverse("admin:memory_release_changelist"))

    assert "too few: 62 with, 15 without" in page


def test_guardrail_that_fired_is_marked() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment, base=0.9, lift=-0.7).send(300)
    take_look(experiment.pk)

    page = read(log_in(), address(experiment))

    assert "Release 2 was rolled back." in page
    assert '<span class="fired">fired</span>' in page


def test_arms_without_their_shares_are_an_alarm() -> None:
    experiment = make_experiment(share=100)
    Traffic(experiment=experiment).send(300, share=0.4)
    take_look(experiment.pk)

    page = read(log_in(), address(experiment))

    assert "the arms do not have them" in page
    assert 'class="alarms"' in page


def test_list_says_what_each_found() -> None:
    make_experiment()

    page = read(log_in(), reverse("admin:evaluation_experiment_changelist"))

    assert "Nothing is known about Release 2 yet" in page


def test_experiment_is_started_by_a_form() -> None:
    project, release = make_deployed()
    start = reverse("admin:evaluation_experiment_start", args=[project.pk])
    client = log_in()
    sent = {"release": "2", "max_units": 400, "tau_points": 5, "method": "mixture", "margin_points": 0, "hours": 2}

    page = client.post(start, sent | {"promotes": "people"}, follow=True).content.decode()

    experiment = Experiment.objects.get()
    assert (experiment.treated_release, experiment.tau, experiment.look_back_seconds) == (release, 0.05, 7200)
    assert (experiment.started_by, get_deployment(project).canary_share) == ("user:ana", 10)
    assert "Experiment 1 runs" in page
    again = client.post(start, sent | {"promotes": "people"}).content.decode()
    assert "has been running since" in again


def test_wrong_plan_is_said_beside_its_field() -> None:
    project, _ = make_deployed()
    start = reverse("admin:evaluation_experiment_start", args=[project.pk])

    page = log_in().post(start, {"release": HOSTILE, "max_units": 0}).content.decode()

    assert "greater than or equal to 1" in page
    assert HOSTILE not in page
    assert not Experiment.objects.exists()


def test_buttons_look_and_stop() -> None:
    experiment = make_experiment()
    Traffic(experiment=experiment).send(20)
    client = log_in()

    looked = client.post(address(experiment), {"do": "look"}, follow=True).content.decode()
    client.post(address(experiment), {"do": "stop", "reason": HOSTILE})

    experiment.refresh_from_db()
    assert "There is a new result" in looked
    assert (experiment.status, experiment.ended_by, experiment.reason) == ("ended", "user:ana", HOSTILE)
    assert HOSTILE not in read(client, address(experiment))


def test_only_deployers_start_and_stop() -> None:
    experiment = make_experiment()
    client = log_in(permissions=SEES)

    assert client.post(address(experiment), {"do": "stop"}).status_code == 403
    start = reverse("admin:evaluation_experiment_start", args=[experiment.project_id])
    assert client.get(start).status_code == 403
    assert "Stop</button>" not in read(client, address(experiment))
    experiment.refresh_from_db()
    assert experiment.status == "running"


def test_experiments_of_other_projects_are_not_there() -> None:
    experiment = make_experiment()
    client = log_in(project=make_project())

    assert client.get(address(experiment)).status_code == 302
    assert client.get(reverse("admin:evaluation_experiment_start", args=[experiment.project_id])).status_code == 404


def test_release_and_deployment_show_what_experiments_found() -> None:
    experiment = make_experiment()
    client = log_in()

    for path in (
        reverse("admin:memory_deployment_of", args=[experiment.project_id]),
        reverse("admin:memory_release_change", args=[experiment.treated_release_id]),
    ):
        assert "Nothing is known about Release 2 yet" in read(client, path)


def test_uplift_is_shown_along_the_line_and_as_a_whole() -> None:
    experiment = make_held_out(units=300, base=0.2, lift=0.6)
    client = log_in()

    page = read(client, reverse("admin:memory_release_changelist"))
    deployment = read(client, reverse("admin:memory_deployment_of", args=[experiment.project_id]))

    assert page.count('class="uplift"') == 1
    assert "<circle" in page
    assert "Lessons help: +" in deployment


def test_uplift_that_cannot_be_told_from_none_says_so_beside_its_interval() -> None:
    make_held_out(units=300, base=0.5, lift=0.0)

    page = read(log_in(), reverse("admin:memory_release_changelist"))

    assert re.search(r"points \[-\d+\.\d, \d+\.\d\], no effect found yet", page)


def test_lesson_page_tells_an_effect_from_an_association() -> None:
    lesson = make_lesson()
    record_observed(lesson, "Show an order", given=(40, 10), without=(20, 30))
    url = reverse("admin:inbox_tab", args=["lesson", lesson.pk, "effect"])

    client = log_in()

    observed = read(client, url)
    record_units(lesson, arm="holdout", success=50, failure=50)
    record_units(lesson, success=350, failure=150)
    drawn = read(client, url)

    assert "Association, not an effect" in observed
    assert "50 runs with it, 50 without, 90 days" in observed
    assert "<strong>+20 points (" in drawn
    assert "Chance decided from which units it was withheld" in drawn


def test_page_takes_a_fixed_number_of_queries() -> None:
    experiment = make_experiment(plan=replace(PLAN, max_units=100_000))
    look_twice(experiment)
    root = get_user_model().objects.create_superuser("root")
    ProjectMembership.objects.create(user=root, role="operator")
    client = Client()
    client.force_login(root)

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            read(client, address(experiment))
        return len(queries)

    count()  # warms Django's caches
    before = count()
    look_twice(experiment)

    assert count() == before
