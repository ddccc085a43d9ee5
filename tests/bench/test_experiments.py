"""The commands that measure releases and experiments work, at their smallest."""

from types import SimpleNamespace

import numpy as np
import pytest
from pytest_django.live_server_helper import LiveServer

from bench import experiments, false_claims, lesson_effects, releases, sequential_figures
from evaluation.experiments.analysis import ArmVerdict

pytestmark = pytest.mark.nightly


CLAIMS = {ArmVerdict.BETTER, ArmVerdict.WORSE, ArmVerdict.ROLL_BACK}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("part", ["harm", "equal", "splitter"])
def test_experiments_run_through_the_api(part: str, live_server: LiveServer) -> None:
    simulate, _, _ = experiments.PARTS[part]

    said = simulate(SimpleNamespace(base_url=live_server.url), 1, 3)

    assert "of 1 " in said or "not rolled back" in said or "after 0 units" in said


def test_sequential_figures_are_simulated() -> None:
    random = np.random.default_rng(1)

    assert sequential_figures.simulate_verdict(random, base=0.1, lift=0.8, looks=60) < 60
    assert sequential_figures.simulate_rollback(random, base=0.9, harm=0.8, looks=60) < 60
    assert sequential_figures.simulate_small_arm(random, base=0.95, controls=19, looks=40) == float("inf")
    assert sequential_figures.simulate_ratio(random, planned=0.1, true=0.9, looks=60) < 60
    assert sequential_figures.simulate_exact(random, base=0.1, lift=0.8, looks=60) < 60


@pytest.mark.parametrize("kind", lesson_effects.KINDS)
def test_lessons_are_compared_in_projects_of_each_kind(kind: str) -> None:
    assert lesson_effects.report(kind, 1).startswith(f"{kind}: of 1 projects")


@pytest.mark.parametrize("kind", lesson_effects.KINDS)
def test_no_claim_about_a_lesson_is_missed_by_the_figures_of_all_looks(kind: str) -> None:
    project, looks = lesson_effects.draw(lesson_effects.KINDS[kind], 7), range(500, lesson_effects.UNITS + 1, 500)
    close = project.trace()

    claims = {
        (look, effect.heuristic_id != lesson_effects.FIRST)
        for look in looks
        for effect in project.measure(units=look)
        if effect.sign
    }

    assert claims <= {(look, is_other) for look in looks for is_other in close[look // 50 - 1].nonzero()[0]}


@pytest.mark.parametrize("kind", [*false_claims.NOTHING, *false_claims.SOMETHING], ids=lambda kind: kind.name)
def test_no_claim_of_an_experiment_is_missed_by_the_figures_of_all_looks(kind: false_claims.Kind) -> None:
    traffic, looks = false_claims.draw(kind, 7), range(300, kind.units + 1, 300)
    found = false_claims.trace(kind, traffic)

    findings = {look: false_claims.look_at(kind, traffic, look) for look in looks}

    missing = [findings[look].missing_e_value for look in looks]
    assert [found.missing_e_value[look // 20 - 1] for look in looks] == pytest.approx(missing, rel=0.01)
    claimed = {look for look in looks if findings[look].verdict in CLAIMS - {kind.truth and ArmVerdict.WORSE}}
    assert claimed <= {look for look in looks if found.is_close[look // 20 - 1]}


def test_assignment_is_measured() -> None:
    found = releases.measure_assignment(2000, processes=0)

    assert found["held out, designed 0.05"] == pytest.approx(0.05, abs=0.03)


@pytest.mark.django_db
def test_blocks_are_rebuilt_from_several_releases() -> None:
    found = releases.measure_rebuild(6, releases=2, asked=6, lessons=6)

    assert (found["answers"], found["rebuilt byte for byte"]) == (6, 6)


def test_cost_is_compared_without_what_was_held_out() -> None:
    taken = [releases.Timed(1.0, staged=False, new=True, arm="")] * 20
    taken += [releases.Timed(1.02, staged=True, new=True, arm="candidate")] * 20
    taken += [releases.Timed(0.1, staged=True, new=True, arm="holdout")] * 5

    assert releases.compare(taken)["dearer"] == "+2.0% [+2.0%, +2.0%]"
