"""The plan of `plan_capacity` follows from the measured figures."""

import io
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from erl_site.capacity.plan import Demand, Plan, find_cost, make_plan, read_figures

DEMAND = Demand(requests_per_second=5000, new_share=0.3, lessons=1_000_000)
FIGURES = {
    "requests": {
        "sizes": [
            {"lessons": lessons, "floor": 10.0}
            | {"new": {"web": 20.0, "database": database}, "known": {"web": 5.0, "database": 1.0}}
            | {"run": {"web": 20.0, "database": 5.0}}
            for lessons, database in ((1_000, 2.0), (100_000, 10.0))
        ]
    },
    "embedding": {"milliseconds": 10.0},
    "log": {"milliseconds": 0.2},
    "memory": {
        "web_process_mb": 250,
        "database_mb_of_a_million_lessons": 3000,
        "database_connection_mb": 10,
    },
    "disk": {"answer_bytes": 1000, "run_bytes": 10_000},
}


def cores(plan: Plan) -> dict[str, float]:
    return {part.name: round(part.busy_cores, 3) for part in plan.parts}


def test_cores_are_rates_times_milliseconds() -> None:
    demand = Demand(requests_per_second=100, new_share=0.5, lessons=1_000, run_share=0.2)

    assert demand.rates == {"new": 40.0, "known": 40.0, "run": 20.0}
    # web: 40 × 20 + 40 × 5 + 20 × 20; PostgreSQL: 40 × 2 + 40 × 1 + 20 × 5, of it the log 80 × 0.2 and the runs
    assert cores(make_plan(demand, FIGURES)) == {"web": 1.4, "replica": 0.104, "primary and stand-by": 0.116}


def test_cost_lies_between_the_measured_sizes() -> None:
    def cost(lessons: int) -> float:
        return find_cost(FIGURES, kind="new", server="database", lessons=lessons)

    assert [round(cost(lessons), 6) for lessons in (1, 1_000, 10_000, 100_000, 10**9)] == [2.0, 2.0, 6.0, 10.0, 10.0]


def test_disk_is_rows_times_bytes() -> None:
    demand = Demand(requests_per_second=10, new_share=0.5, lessons=1_000, run_share=0.1)

    assert make_plan(demand, FIGURES).disk_gb_a_month == pytest.approx((9 * 1000 + 10_000) * 2_592_000 / 1e9)


@pytest.mark.parametrize("change", [{"new_share": 0.6}, {"requests_per_second": 10_000}, {"run_share": 0.3}])
def test_more_of_what_costs_needs_more_web_hosts(change: dict[str, Any]) -> None:
    (before, *_), (after, *_) = (make_plan(each, read_figures()).parts for each in (DEMAND, replace(DEMAND, **change)))

    assert after.hosts > before.hosts


def test_drivers_are_shares_of_all_processors() -> None:
    shares = [share for _, share in make_plan(DEMAND, read_figures()).drivers]

    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)


def test_figures_name_the_command_that_measured_them() -> None:
    assert [name for name, part in read_figures().items() if not part["command"]] == []


def test_command_prints_a_line_for_each_kind_of_host() -> None:
    out = io.StringIO()

    call_command("plan_capacity", rps=5000, new_share=0.3, lessons=1_000_000, stdout=out)

    assert [line.split("  ")[0] for line in out.getvalue().splitlines()[1:4]] == [
        "web",
        "replica",
        "primary and stand-by",
    ]


def test_command_refuses_a_share_that_is_none() -> None:
    with pytest.raises(CommandError, match="shares between 0 and 1"):
        call_command("plan_capacity", rps=10, new_share=30)
