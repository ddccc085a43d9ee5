"""The review desk's page, without a browser."""

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memory.curation.proposals import revise_heuristic
from memory.heuristics.text import HeuristicText
from memory.ids import uuid7
from memory.projects.actors import Actor
from reflection.reflectors.models import Proposal
from tests.desk.desk_pages import ANA, address, embed, page
from tests.factories import (
    approve_as_read,
    make_evidence,
    make_heuristic,
    make_project,
    make_reflection,
    make_retrieval,
    make_trajectory,
)

pytestmark = pytest.mark.django_db


def test_desk_costs_the_same_queries_however_much_there_is_to_show(reviewer: Client) -> None:
    project = make_project()
    small, big = (make_heuristic(trajectory=make_trajectory(project=project)) for _ in range(2))
    for _ in range(6):
        make_evidence(heuristic=big, trajectory=make_trajectory(project=project))
        Proposal.objects.create(
            project=project,
            heuristic=big,
            effect="new",
            ordinal=1,
            reflection=make_reflection(trajectory=make_trajectory(project=project)),
        )
        make_retrieval(project=project, heuristic_ids=[big.pk])
        embed(make_heuristic(project=project), 1, 0)
    embed(small, 0, 1)
    embed(big, 1, 0)
    page(reviewer, small)

    with CaptureQueriesContext(connection) as few:
        page(reviewer, small)
    with CaptureQueriesContext(connection) as many:
        page(reviewer, big)

    assert len(many) == len(few) == 60


def test_desk_marks_runs_that_were_given_lessons(reviewer: Client) -> None:
    project = make_project()
    told = make_retrieval(project=project, injected_ids=[uuid7()])
    held_out = make_retrieval(project=project, arm="holdout")
    by_guided, by_other = (
        make_heuristic(trajectory=make_trajectory(project=project, retrieval=answer)) for answer in (told, held_out)
    )

    assert ">given lessons</span>" in page(reviewer, by_guided)
    assert ">given lessons</span>" not in page(reviewer, by_other)


def test_desk_shows_the_nearest_lesson_with_a_word_diff(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project, guideline="Check the fare class first.")
    existing = make_heuristic(project=project, status="approved", guideline="Check the cabin class first.")
    embed(proposal, 0.96, 0.28)
    embed(existing, 1, 0)

    html = page(reviewer, proposal)

    assert "96% similar" in html
    assert "Check the <del>cabin</del><ins>fare</ins> class first." in html


def test_desk_leaves_out_lessons_that_are_not_close(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project)
    embed(proposal, 1, 0)
    embed(make_heuristic(project=project, status="approved"), 0, 1)
    embed(make_heuristic(project=project, status="rejected"), 1, 0)
    embed(make_heuristic(), 1, 0)  # another project's

    assert "No other lesson is similar" in page(reviewer, proposal)


def test_desk_warns_of_a_possible_contradiction(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project, polarity="works")
    embed(proposal, 1, 0)
    embed(make_heuristic(project=project, polarity="avoid"), 1, 0)

    assert "possible contradiction" in page(reviewer, proposal)


def test_desk_warns_where_one_tells_to_do_what_the_other_tells_to_avoid(reviewer: Client) -> None:
    project = make_project()
    proposal = make_heuristic(project=project, guideline="Cancel the reservation at once.")
    embed(proposal, 1, 0)
    embed(make_heuristic(project=project, avoid="cancel a reservation at once"), 1, 0)

    assert "One says to do what the other says to avoid" in page(reviewer, proposal)


def test_desk_shows_what_the_checks_found(reviewer: Client) -> None:
    trajectory = make_trajectory()
    heuristic = make_heuristic(trajectory=trajectory)
    Proposal.objects.create(
        project=trajectory.project,
        heuristic=heuristic,
        effect="new",
        ordinal=1,
        reflection=make_reflection(trajectory=trajectory, cost_usd="0.0123"),
        findings=[{"code": "url", "message": "The lesson contains <a> web address."}],
    )

    html = page(reviewer, heuristic)

    assert "The lesson contains &lt;a&gt; web address." in html
    assert "$0.0123" in html


def test_desk_says_what_the_lesson_costs_each_time(reviewer: Client) -> None:
    assert "21 tokens per prompt" in page(
        reviewer, make_heuristic(trigger="a refund is asked for", guideline="Look up the fare class before anything.")
    )


def test_desk_says_how_the_runs_that_were_given_it_ended(reviewer: Client) -> None:
    heuristic = make_heuristic(status="approved")
    retrieval = make_retrieval(project=heuristic.project, heuristic_ids=[heuristic.pk])
    make_trajectory(project=heuristic.project, retrieval=retrieval, outcome="success", score=1)

    html = page(reviewer, heuristic)

    assert "Given in 1 answer," in html
    assert "Of the runs given it, 1 succeeded and 0 failed." in html


def test_timeline_tells_the_whole_life(reviewer: Client) -> None:
    heuristic = make_heuristic(guideline="first words")
    approve_as_read(heuristic, by=ANA, reason="sound", seconds_on_screen=6)
    revise_heuristic(heuristic, text=HeuristicText(trigger="x", guideline="second words"), by=Actor(label="user:ben"))

    html = page(reviewer, heuristic)

    assert "<strong>Approved</strong> by ana after 6 s: sound" in html
    assert "<strong>Revision 2 written</strong> by ben" in html
    assert "<del>first</del><ins>second</ins> words" in html


def test_desk_of_another_permission_is_forbidden(client: Client) -> None:
    client.force_login(get_user_model().objects.create_user("eve", is_staff=True))

    assert client.get(address(make_heuristic())).status_code == 403


def test_desk_marks_the_words_that_a_check_means_and_says_each_finding(reviewer: Client) -> None:
    project = make_project()
    lesson = make_heuristic(project=project, guideline="Refund with `pay_out` without asking <b>.")
    findings = [
        {"code": "instruction_like", "message": "It says “without asking”.", "words": ["without asking"]},
        {"code": "unknown_tools", "message": "It names “pay_out”.", "words": ["pay_out"]},
        {"code": "unknown_tools", "message": "Kept without words."},
    ]
    reflection = make_reflection(trajectory=make_trajectory(project=project))
    Proposal.objects.create(
        project=project, heuristic=lesson, effect="new", ordinal=1, reflection=reflection, findings=findings
    )

    html = page(reviewer, lesson)

    assert "Refund with <code><mark>pay_out</mark></code> <mark>without asking</mark> &lt;b&gt;." in html
    assert "It names “pay_out”." in html
    assert "Kept without words." in html


def test_desk_shows_the_lesson_that_a_proposal_may_repeat(reviewer: Client) -> None:
    project = make_project()
    existing = make_heuristic(project=project, status="approved", guideline="Ask for the user ID alone.")
    lesson = make_heuristic(project=project, guideline="Ask for the user ID only, then look.")
    reflection = make_reflection(trajectory=make_trajectory(project=project))
    Proposal.objects.create(
        project=project,
        heuristic=lesson,
        near=existing,
        effect="merge",
        ordinal=1,
        reflection=reflection,
        findings=[{"code": "may_repeat", "message": "It may say what the similar lesson says."}],
    )

    html = reviewer.get(address(lesson)).content.decode()

    assert "It may repeat this" in html
    assert "Ask for the user ID alone." in html
