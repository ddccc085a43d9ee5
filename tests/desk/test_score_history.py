"""Scores by task family and agent: exact while many write at once, and after late outcomes and erasures."""

from concurrent.futures import ThreadPoolExecutor
from statistics import fmean

import pytest
from django.db import connection

from desk.pages.score_charts import draw_scores
from memory.episodes.summary import summarize_memory
from memory.intake.recording import RunSender, record_trajectory, report_outcome
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.runs.scores import find_trend, read_score_history
from memory.trust.erasure import erase_trajectory
from tests.factories import make_project

ANA = Actor(label="user:ana")


def record(project: Project, score: float | None, *, task_id: str = "airline", agent: str = "bot") -> Trajectory:
    data = {"task": "Cancel", "task_id": task_id, "agent": agent, "score": score}
    return record_trajectory(project, data=data, by=ANA, reflect=False).trajectory


@pytest.mark.django_db
def test_history_is_by_family_and_agent() -> None:
    project = make_project()
    for score in (0.1, 0.2, 0.9):
        record(project, score)
    record(project, 0.5, agent="other")
    record(project, 0.5, task_id="retail")
    record(make_project(), 1.0)

    histories = read_score_history(project)
    assert [(h.task_id, h.agent, h.count) for h in histories] == [
        ("airline", "bot", 3),
        ("airline", "other", 1),
        ("retail", "bot", 1),
    ]
    first = histories[0]
    assert first.mean == pytest.approx(0.4)
    assert (first.best, first.last) == (0.9, (0.9, 0.2, 0.1))
    assert first.trend == pytest.approx(0.8)


@pytest.mark.django_db
def test_history_follows_late_outcomes_and_erasures() -> None:
    project = make_project()
    late, wrong = record(project, None), record(project, 1.0)
    report_outcome(late, outcome="failure", score=0.25, outcome_source="test", by=ANA, reflect=False)
    assert (read_score_history(project)[0].count, read_score_history(project)[0].best) == (2, 1.0)

    erase_trajectory(wrong, by=ANA)

    history = read_score_history(project)[0]
    assert (history.count, history.mean, history.best, history.trend) == (1, 0.25, 0.25, None)


def test_trend_compares_the_newer_half_with_the_older() -> None:
    assert find_trend([1.0, 1.0, 0.0, 0.0]) == 1.0
    assert find_trend([0.0, 0.5, 1.0]) == -1.0
    assert find_trend([0.7]) is None


@pytest.mark.django_db(transaction=True)
def test_eight_writers_at_once_lose_no_count() -> None:
    project = make_project()
    card = {"mistake_type": "wrong_fare", "correct_decision": "Check the fare.", "lesson": "Fares differ."}
    scores = [number / 100 for number in range(96)]

    def write(part: list[float]) -> None:
        for score in part:
            data = {"task": "Cancel", "task_id": "airline", "agent": "bot", "score": score, "mistake_cards": [card]}
            client = f"client-{part[0]}"
            record_trajectory(project, data=data, by=ANA, sender=RunSender(client=client), reflect=False)
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, [scores[start::8] for start in range(8)]))

    history = read_score_history(project)[0]
    assert (history.count, history.best) == (96, 0.95)
    assert history.mean == pytest.approx(fmean(scores), abs=1e-12)
    assert [c.support for c in summarize_memory(project).cards] == [96]


@pytest.mark.django_db
def test_line_of_scores_is_an_average_and_not_a_zigzag() -> None:
    project = make_project()
    for number in range(20):
        record(project, float(number % 2))

    (chart,) = draw_scores(project)

    heights = [float(pair.partition(",")[2]) for pair in chart.line.split()]
    assert max(heights[9:]) - min(heights[9:]) < 1
    assert len({point.y for point in chart.points}) == 2
