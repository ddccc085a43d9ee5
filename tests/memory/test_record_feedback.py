"""Verdicts on lessons."""

import pytest

from memory.effects.feedback import Feedback, record_feedback
from memory.effects.models import HeuristicFeedback
from memory.projects.actors import Actor
from tests.factories import make_heuristic, make_retrieval, make_trajectory

pytestmark = pytest.mark.django_db

AGENT = Actor(label="key:agent")


def test_feedback_repeated_for_one_run_counts_once() -> None:
    trajectory = make_trajectory()
    heuristic = make_heuristic(trajectory=trajectory)
    record_feedback(heuristic, Feedback(verdict="followed"), trajectory=trajectory, client="agent")

    record_feedback(heuristic, Feedback(verdict="contradicted"), trajectory=trajectory, client="agent")

    assert list(HeuristicFeedback.objects.values_list("verdict", flat=True)) == ["contradicted"]


def test_feedback_of_two_clients_counts_twice() -> None:
    heuristic = make_heuristic()
    retrieval = make_retrieval(project=heuristic.project)
    record_feedback(heuristic, Feedback(verdict="followed"), retrieval=retrieval, client="one")

    record_feedback(heuristic, Feedback(verdict="followed"), retrieval=retrieval, client="two")

    assert HeuristicFeedback.objects.count() == 2
