"""Constraints on evaluations, and reproducible ids."""

from collections.abc import Iterator

import pytest
from django.db import IntegrityError
from django.utils import timezone

from evaluation.models import EvaluationRun
from memory.ids import repeat_ids, uuid7


@pytest.fixture
def repeated() -> Iterator[None]:
    yield
    repeat_ids(None)


@pytest.mark.django_db
def test_unknown_status_is_refused() -> None:
    with pytest.raises(IntegrityError, match="evaluation_run_"):
        EvaluationRun.objects.create(suites=["replay"], status="lost", finished_at=timezone.now())


@pytest.mark.django_db
def test_finished_run_without_a_time_is_refused() -> None:
    with pytest.raises(IntegrityError, match="evaluation_run_end_has_time"):
        EvaluationRun.objects.create(suites=["replay"], status="finished")


def test_ids_of_a_seed_repeat_in_order(repeated: None) -> None:
    repeat_ids("seed")
    first = [uuid7() for _ in range(5)]
    repeat_ids("seed")

    assert [uuid7() for _ in range(5)] == first == sorted(first)
    assert {each.version for each in first} == {7}


def test_ids_of_another_seed_differ(repeated: None) -> None:
    repeat_ids("one")
    first = uuid7()
    repeat_ids("two")

    assert uuid7() != first
